/* Elements of HTML: what text may do to them, which pictures are taken, and Markdown. */
#include "base/text_file.h"
#include "report/diagrams.h"
#include "report/html.h"
#include "report/markdown.h"
#include "report/plot.h"
#include "report/table.h"
#include "tests/helpers.h"

static char *made; /* by the last END */

/* What is printed to `out` between BEGIN and END is in `made`. */
#define BEGIN                                                                                                          \
    size_t size_;                                                                                                      \
    free(made);                                                                                                        \
    FILE *out = open_memstream(&made, &size_)
#define END fclose(out)

static void text_cannot_leave_its_element(void **state) {
    (void)state;
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

static void facts_that_are_missing_are_unknown(void **state) {
    (void)state;
    BEGIN;
    html_fact(out, "a<b", NULL);
    html_fact(out, "c", "<d>");
    END;
    assert_string_equal(made, "<div><dt>a&lt;b</dt><dd class=\"unknown\">unknown</dd></div>\n"
                              "<div><dt>c</dt><dd>&lt;d&gt;</dd></div>\n");
}

/* The test vectors of RFC 4648. */
static void data_are_base64(void **state) {
    (void)state;
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

static void pictures_of_this_program_are_taken(void **state) {
    (void)state;
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

static void other_pictures_are_refused(void **state) {
    (void)state;
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

static void cells_of_a_header_may_have_any_text(void **state) {
    (void)state;
    BEGIN;
    html_table_begin_cells(out, "c", (const char *[]){"a|b:", "<i>"}, 2);
    html_table_end(out);
    END;
    assert_contains(made, "<tr><th scope=\"col\">a|b:</th><th scope=\"col\">&lt;i&gt;</th></tr></thead><tbody>\n");
}

static void markdown_becomes_html(void **state) {
    (void)state;
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

/* What the data say is shown as they say it, and is neither HTML nor a link where Markdown is rendered. */
static void markdown_holds_no_html_of_the_data(void **state) {
    (void)state;
    static const char text[] = "<img src=x> \\<b> & [a](b) | \x1b[31m \\";
    char *path = path_join(scratch_directory(), "a.md");
    TextFile file;
    Table table = {0};
    Error error;
    text_file_begin(&file);
    fprintf(file.out, "# %s\n\n%s\n\n", "<i>", "a < b");
    table_text(&table, "<name>", text);
    table_print_markdown(&table, 1, file.out);
    assert_true(markdown_end(&file, path, &error));
    char *written = read_text(path);
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
    free(written);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_cannot_leave_its_element),
        cmocka_unit_test(facts_that_are_missing_are_unknown),
        cmocka_unit_test(data_are_base64),
        cmocka_unit_test(pictures_of_this_program_are_taken),
        cmocka_unit_test(other_pictures_are_refused),
        cmocka_unit_test(cells_of_a_header_may_have_any_text),
        cmocka_unit_test(markdown_becomes_html),
        cmocka_unit_test(markdown_holds_no_html_of_the_data),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(made);
    return failed;
}
