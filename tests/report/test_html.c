/* Elements of HTML: what text may do to them, which pictures are taken, and Markdown. */
#include "base/text_file.h"
#include "report/diagrams.h"
#include "report/html.h"
#include "report/markdown.h"
#include "report/plot.h"
#include "report/table.h"
#include "tests/test.h"

static char *made; /* by the last END */

/* Puts what is printed to `out` between BEGIN and END into `made`. */
#define BEGIN                                                                                                          \
    size_t size_;                                                                                                      \
    free(made);                                                                                                        \
    FILE *out = open_memstream(&made, &size_)
#define END fclose(out)

TEST(text_cannot_leave_its_element) {
    static const struct {
        const char *text, *want;
    } cases[] = {{"a < b && c > \"d\" 'e'", "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#39;e&#39;"},
                 {"አማርኛ é", "አማርኛ é"},
                 {"\xff\xfe<", "\xef\xbf\xbd\xef\xbf\xbd&lt;"},
                 {"a\x1b[2Jb\x7f", "a\xef\xbf\xbd[2Jb\xef\xbf\xbd"},
                 {"x\xe2\x80\xaey", "x\xef\xbf\xbdy"}, /* U+202E turns the direction */
                 {"two\nlines", "two\nlines"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BEGIN;
        html_text(out, cases[i].text);
        END;
        assert_string_equal(made, cases[i].want);
    }
}

TEST(facts_that_are_missing_are_unknown) {
    BEGIN;
    html_fact(out, "a<b", NULL);
    html_fact(out, "c", "<d>");
    END;
    assert_string_equal(made, "<div><dt>a&lt;b</dt><dd class=\"unknown\">unknown</dd></div>\n"
                              "<div><dt>c</dt><dd>&lt;d&gt;</dd></div>\n");
}

/* The test vectors of RFC 4648. */
TEST(data_are_base64) {
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BEGIN;
        html_data_uri(out, "audio/wav", cases[i][0], strlen(cases[i][0]));
        END;
        assert_string_equal(made + strlen("data:audio/wav;base64,"), cases[i][1]);
    }
}

TEST(pictures_of_this_program_are_taken) {
    static const int64_t confusion[] = {3, 1, 0, 4};
    static const char *const names[] = {"<script>", "b & \"c\""};
    const double x[] = {1, 2, 3}, y[] = {3, NAN, 1};
    const PlotSeries series = {.name = "a<b>", .x = x, .y = y, .low = y, .high = y, .n = 3};
    const Plot plot = {.title = "t", .x_label = "x", .y_label = "y", .series = &series, .n_series = 1};
    Error error = {""};
    {
        BEGIN;
        diagram_confusion(out, confusion, 2, names, "<title>");
        END;
        if (!html_svg_check(made, &error)) fail_msg("%s", error.text);
    }
    BEGIN;
    assert_true(plot_draw(out, &plot, 1, "two > one", &error));
    END;
    if (!html_svg_check(made, &error)) fail_msg("%s", error.text);
    char *style = strstr(made, "</style>");
    style[-1] = ' '; /* its last brace */
    assert_false(html_svg_check(made, &error));
    assert_contains(error.text, "its style is not that of this program's pictures");
    style[-1] = '}';
    made[strlen(made) / 2] = 0;
    assert_false(html_svg_check(made, &error));
}

TEST(other_pictures_are_refused) {
    static const char *const cases[][2] = {
        {"<html></html>", "does not begin with <svg"},
        {"<svg ><script>x</script></svg>", "an element 'script'"},
        {"<svg onload=\"x\"></svg>", "the attribute 'onload'"},
        {"<svg ><rect ONCLICK=\"x\"/></svg>", "the attribute 'ONCLICK'"},
        {"<svg ><a href=\"x\"></a></svg>", "an element 'a'"},
        {"<svg ><path fill=\"url(http://x)\"/></svg>", "the attribute 'fill' with '('"},
        {"<svg ><path fill=\"URL(http://x)\"/></svg>", "the attribute 'fill' with '('"},
        {"<svg ><path fill=\"image-set('x')\"/></svg>", "the attribute 'fill' with '('"},
        {"<svg ><path fill=\"&#117;rl&#40;x)\"/></svg>", "the attribute 'fill' with '&'"},
        {"<svg ><path fill=\"\\75rl\\28x)\"/></svg>", "the attribute 'fill' with '\\'"},
        {"<svg ><g transform=\"rotate&#40;9)\"></g></svg>", "the attribute 'transform' with '&'"},
        {"<svg ><style>@IMPORT 'x'</style></svg>", "its style is not that of"},
        {"<svg ><style>.plot-line{fill:red}</style></svg>", "its style is not that of"},
        {"<svg ><style/>h1{color:red}</svg>", "its style is not that of"},
        {"<svg ></g>", "'</g>' does not close what is open"},
        {"<svg ><g><g><g><g><g><g><g><g><g><g><g><g><g><g><g><g>", "its elements are too deep"},
        {"<svg ><foreignObject></foreignObject></svg>", "an element 'foreignObject'"},
        {"<svg ><path d='x'/></svg>", "an attribute without quotes"},
        {"<svg ><!-- --></svg>", "an element '!--'"},
        {"<svg ><g></g>", "it is cut off"},
        {"<svg ><g></svg>", "'</svg>' does not close what is open"},
        {"<svg ></svg><svg ></svg>", "more than one element"},
        {"<svg ><path d=\"x", "an attribute without an end"},
        {"<svg ><path", "the attribute ''"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        if (html_svg_check(cases[i][0], &error)) fail_msg("taken: %s", cases[i][0]);
        if (!strstr(error.text, cases[i][1])) fail_msg("%s: %s", cases[i][0], error.text);
    }
}

TEST(cells_of_a_header_may_have_any_text) {
    BEGIN;
    html_table_begin_cells(out, "c", (const char *[]){"a|b:", "<i>"}, 2);
    html_table_end(out);
    END;
    assert_contains(made, "<tr><th scope=\"col\">a|b:</th><th scope=\"col\">&lt;i&gt;</th></tr></thead><tbody>\n");
}

TEST(markdown_becomes_html) {
    BEGIN;
    html_markdown(out,
                  "# A <b>\n\none\ntwo\n- x & y\n- z\n\n## Scores\n\n| name | value |\n|---|---:|\n| a\\|b | 0.5 |\n"
                  "| c\\\\ | - |\nafter\n| no table",
                  2);
    END;
    assert_string_equal(made,
                        "<h2>A &lt;b&gt;</h2>\n<p>one<br>two</p>\n<ul><li>x &amp; y</li>\n<li>z</li>\n</ul>\n"
                        "<h3>Scores</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                        "aria-label=\"Scores\"><table><thead><tr>"
                        "<th scope=\"col\">name</th><th scope=\"col\" class=\"n\">value</th></tr>\n</thead><tbody>\n"
                        "<tr><th scope=\"row\">a|b</th><td class=\"n\">0.5</td></tr>\n"
                        "<tr><th scope=\"row\">c\\</th><td class=\"n\">-</td></tr>\n</tbody></table></div>\n"
                        "<p>after<br>| no table</p>\n");
}

/* Text of the data is shown as it is, and is neither HTML nor a link where Markdown is rendered. */
TEST(markdown_holds_no_html_of_the_data) {
    static const char text[] = "<img src=x> \\<b> & [a](b) | \x1b[31m \\";
    char *path = kept_path(scratch_directory(), "a.md");
    TextFile file;
    Table table = {0};
    Error error;
    text_file_begin(&file);
    fprintf(file.out, "# %s\n\n%s\n\n", "<i>", "a < b");
    table_text(&table, "<name>", text);
    table_print_markdown(&table, 1, file.out);
    assert_true(markdown_end(&file, path, &error));
    char *written = kept_text(path);
    assert_string_equal(written,
                        "# \\<i>\n\na \\< b\n\n| \\<name> |\n|---|\n| \\<img src=x> \\\\\\<b> \\& \\[a](b) \\| "
                        "\u241b\\[31m \\\\ |\n");
    BEGIN;
    html_markdown(out, written, 2);
    END;
    assert_contains(made, "<h2>&lt;i&gt;</h2>\n<p>a &lt; b</p>\n");
    assert_contains(made, "<th scope=\"col\">&lt;name&gt;</th>");
    assert_contains(made, ">&lt;img src=x&gt; \\&lt;b&gt; &amp; [a](b) | \u241b[31m \\</th>");
    table_free(&table);
}
