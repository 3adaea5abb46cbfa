/* report.html: made from logs that are written here, whole, torn, hostile, old and large. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "page/page.h"
#include "tests/train/story.h"
#include "train/run/page.h"

static Error error;

static const double rising[] = {0.8, 0.7, 0.75, 0.8, 0.9}, high[] = {1.2, 1.1, 1.05, 1.05, 1.05};

static void must_say(const Story *story, const char *const *texts) {
    char *directory = story_write(story), *page = story_page(directory);
    assert_page_has(page, texts);
}

static void must_not_say(const Story *story, const char *text) {
    char *directory = story_write(story), *page = story_page(directory);
    if (strstr(page, text)) fail_msg("the page has: %s", text);
}

static void append(const char *directory, const char *name, const char *text) {
    FILE *out = fopen(kept_path(directory, name), "a");
    fputs(text, out);
    fclose(out);
}

/* ---- one run ---- */

TEST(every_fact_of_a_run_is_there) {
    must_say(&story_finished,
             (const char *[]){"Finished after all 50 steps. Best val/auroc 0.655 at step 30.",
                              "<dt>val/auroc</dt><dd>0.655</dd><dd class=\"note\">best, at step 30, epoch 3</dd>",
                              "<dd>34.0 %</dd>",
                              "of 121 TFLOP/s, the stated bf16 peak of NVIDIA L4",
                              "<dd>1.90 GB</dd><dd class=\"note\">at most; planned 2.00 GB of 24.0 GB</dd>",
                              "<dd>5h00m</dd>",
                              "<dd>5.00 k tokens/s</dd>",
                              "<div class=\"figures curves\">\n<figure><svg xmlns=", /* as wide as a phone's screen */
                              " width=\"420\"",
                              "scroll sideways",
                              "<dd>4.00 EUR</dd><dd class=\"note\">at 0.8 EUR an hour</dd>",
                              "./train_toy -b 8 &#39;&lt;i&gt;&#39;",
                              "train_toy 0.9, revision abcdef012345",
                              "<dd>2026-11-23T10:00:00Z</dd>",
                              "<dd>cuda: NVIDIA L4</dd>",
                              "<dd>00000000000000d1</dd>",
                              "<dd>00000000000000d2</dd>",
                              "<dd>00000000000000d3</dd>",
                              "<dt>Restarts</dt><dd>0</dd>",
                              "<dd>toy, 1234 parameters, 1200 of them trained</dd>",
                              "<th scope=\"row\">learning-rate</th><td>0.001</td><td>2e-5</td><td>given</td>",
                              "</td><td>none</td><td>chosen by the program</td>",
                              "<th scope=\"row\">manifest</th><td>a, b</td><td>none</td><td>the base checkpoint</td>",
                              "2 steps were skipped",
                              "below the guess, 0.9",
                              "<title>loss</title>",
                              "<title>learning rate</title>",
                              NULL});
}

TEST(names_cannot_leave_their_place) {
    char *parent = kept_folder(), *hostile = kept_path(parent, "<b onclick=x>"), *page;
    char *plain = story_write(&story_finished);
    assert_int_equal(rename(plain, hostile), 0);
    page = story_page(hostile); /* assert_page_is_sound finds a <script> and what is not closed */
    assert_contains(page, "<h1>&lt;b onclick=x&gt;</h1>");
    assert_contains(page, "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>");
    put_text(hostile, "x_<i>.json", "{}");
    put_text(hostile, "x_<i>.md", "# <i>\n\n| <u> |\n|---|\n| </table><b> |\n");
    page = story_page(hostile);
    assert_contains(page, "&lt;/table&gt;&lt;b&gt;</th>");
}

TEST(the_end_is_told_as_it_was) {
    Story s = {5, story_falling, story_flat, .end = NULL};
    must_say(&s, (const char *[]){"No end is recorded after step 50 of 50: the run was killed, or is still running.",
                                  "Cost so far", NULL});
    s.end = ", \"summary/ended\": 0, \"summary/signal\": 15";
    must_say(&s, (const char *[]){"Stopped at step 50 of 50 by signal 15; the same command with --resume auto", NULL});
    s.end = ", \"summary/ended\": 1, \"summary/out_of_patience\": 1";
    must_say(&s, (const char *[]){"Ended early at step 50 of 50: the validation had stopped improving.", NULL});
    char *directory = story_write(&(Story){5, story_falling, story_flat, .end = NULL});
    assert_true(page_write_in(directory, 0, true, &error));
    char *page = read_page(directory);
    assert_contains(page, "Running: step 50 of 50 when this page was written.");
    assert_contains(page, "while the run went on");
}

TEST(trends_are_told_only_when_numbers_show_them) {
    Story over = {5, story_falling, rising, .end = story_ended}, under = {5, story_falling, high, .end = story_ended};
    Story even = {5, story_falling, story_flat, .end = story_ended},
          on = {5, story_falling, story_falling, .end = story_ended};
    must_say(&over, (const char *[]){"Overfitting: val/loss rose from 0.7 (step 20) to 0.9 at the end (+29 %), while "
                                     "train/loss fell from 0.95 to 0.8.",
                                     NULL});
    must_say(&under, (const char *[]){"Underfitting: the least val/loss, 1.05, is not below the guess, 0.9.", NULL});
    must_say(&on, (const char *[]){"Not at its end: val/loss was still falling, by 14.3 %", NULL});
    must_not_say(&even, "Overfitting");
    must_not_say(&even, "Not at its end");
    must_not_say(&even, "Underfitting");
    must_not_say(&on, "Overfitting");
    on.end = NULL; /* it goes on */
    must_not_say(&on, "Not at its end");
    must_not_say(&(Story){3, story_falling, rising, .end = story_ended}, "Overfitting"); /* too few validations */
    must_not_say(&(Story){5, story_flat, rising, .end = story_ended}, "Underfitting");
    must_not_say(&(Story){3, story_falling, high, .end = NULL}, "Underfitting"); /* too early */
    must_not_say(&(Story){1, story_falling, high, .end = ", \"summary/ended\": 0, \"summary/signal\": 2"},
                 "Underfitting");
    must_say(&(Story){1, story_falling, high, .end = story_ended}, (const char *[]){"Underfitting", NULL});
    must_say(&(Story){4, story_falling, high, .end = NULL}, (const char *[]){"Underfitting", NULL});
}

TEST(an_older_log_leaves_facts_unknown) {
    must_say(&(Story){5, story_falling, rising, .end = "", .old = true},
             (const char *[]){"Ended at step 50. Best val/objective 0.7 at step 20.",
                              "<dt>Command</dt><dd class=\"unknown\">unknown</dd>",
                              "<dt>Machine</dt><dd class=\"unknown\">unknown</dd>",
                              "Unknown: neither log.jsonl nor a checkpoint has the options.", "no price was given",
                              "<dd>34.0 %</dd><dd class=\"note\">of a peak that the log does not state</dd>", NULL});
}

TEST(restarts_are_listed_with_what_changed) {
    char *directory =
        story_write(&(Story){5, story_falling, story_flat, .end = ", \"summary/ended\": 0, \"summary/signal\": 2"});
    append(directory, "log.jsonl",
           "{\"kind\": \"start\", \"step\": 50, \"time\": 18000, \"date\": \"2026-11-24T10:00:00Z\", "
           "\"revision\": \"fedcba\", \"total_steps\": 80, \"metric\": \"val/auroc\", "
           "\"options\": {\"learning-rate\": 0.01}, \"defaults\": {}, \"given\": []}\n");
    char *page = story_page(directory);
    assert_page_has(page, (const char *[]){"No end is recorded after step 50 of 80", "<dt>Restarts</dt><dd>1</dd>",
                                           "<th scope=\"row\">50</th><td>2026-11-24T10:00:00Z</td><td>fedcba</td>",
                                           "<td>learning-rate 0.001 to 0.01</td>", "All options have their defaults",
                                           "a part of the run has no price</dd>", NULL});
    free(directory);
}

static const char elsewhere[] =
    "{\"kind\": \"start\", \"step\": 50, \"time\": 18000, \"date\": \"2026-11-24T10:00:00Z\", \"machine\": "
    "\"NVIDIA T4\", \"numbers\": \"f16\", \"peak_flops\": 65e12, \"price_per_hour\": 0.5, \"currency\": \"USD\", "
    "\"total_steps\": 80, \"metric\": \"val/auroc\", \"token_label\": \"cells\", \"step_label\": \"it\"}\n";

/* Speed and utilisation are those of the machine whose peak is named. */
TEST(a_restart_on_another_machine_is_measured_by_itself) {
    char *directory = story_write(&(Story){5, story_falling, story_flat, .end = NULL});
    append(directory, "log.jsonl", elsewhere);
    char *page = story_page(directory);
    assert_page_has(page, (const char *[]){"<dd>34.0 %</dd>", "of 121 TFLOP/s, the stated bf16 peak of NVIDIA L4",
                                           "<dt>Machine</dt><dd>NVIDIA T4</dd>", NULL});
    append(directory, "log.jsonl",
           "{\"kind\": \"train\", \"step\": 60, \"time\": 25200, \"train/loss\": 0.5, \"train/mfu\": 0.5, "
           "\"train/steps_per_second\": 1, \"train/tokens_per_second\": 1000}\n");
    page = story_page(directory);
    assert_page_has(page, (const char *[]){"<dd>50.0 %</dd>", "of 65.0 TFLOP/s, the stated f16 peak of NVIDIA T4",
                                           "<dd>1.00 k cells/s</dd><dd class=\"note\">1 it/s, medians</dd>",
                                           "a part of the run has no price in USD; the last part: 1.00 USD", NULL});
}

TEST(an_extension_changes_the_number_of_steps) {
    char *directory = story_write(&(Story){5, story_falling, story_flat, .end = NULL});
    append(directory, "log.jsonl", "{\"kind\": \"extension\", \"step\": 50, \"time\": 18000, \"total_steps\": 70}\n");
    char *page = story_page(directory);
    assert_contains(page, "No end is recorded after step 50 of 70");
}

/* The log has no validation at the step that the summary names. */
TEST(a_best_value_is_not_taken_from_another_step) {
    char *directory =
        story_write(&(Story){5, story_falling, story_flat, .end = ", \"summary/ended\": 1, \"summary/best_step\": 45"});
    char *page = story_page(directory);
    assert_page_has(page, (const char *[]){"Best val/auroc at step 45; the log does not have its value.",
                                           "<dt>val/auroc</dt><dd class=\"unknown\">unknown</dd>", NULL});
    assert_null(strstr(page, ">nan"));
    assert_null(strstr(page, " nan"));
    free(directory);
}

TEST(a_baseline_without_its_metric_is_left_out) {
    char *directory = kept_folder();
    append(directory, "log.jsonl",
           "{\"kind\": \"start\", \"step\": 0, \"time\": 0, \"baseline\": \"guess\", \"baseline_value\": 1}\n"
           "{\"kind\": \"train\", \"step\": 1, \"time\": 1, \"train/loss\": 3}\n"
           "{\"kind\": \"val\", \"step\": 1, \"time\": 1, \"val/loss\": 3, \"val/objective\": 3}\n"
           "{\"kind\": \"summary\", \"step\": 1, \"time\": 1, \"summary/ended\": 1}\n");
    char *page = story_page(directory);
    assert_null(strstr(page, "guess"));
}

TEST(a_half_written_line_is_told_and_a_damaged_one_named) {
    char *directory = story_write(&(Story){5, story_falling, story_flat, .end = NULL});
    append(directory, "log.jsonl", "{\"kind\": \"train\", \"st");
    char *page = story_page(directory);
    assert_contains(page, "Line 12 of log.jsonl, the last, is half-written");
    append(directory, "log.jsonl", "\n{\"kind\": \"train\", \"step\": 60}\n");
    assert_false(page_write_in(directory, 0, false, &error));
    assert_contains(error.text, kept_format("%s/log.jsonl:12: column ", directory));
    char *again = read_page(directory); /* the earlier page stays */
    assert_string_equal(again, page);
}

/* Validations and extremes stay however long the log is. */
TEST(a_long_log_makes_a_small_page) {
    enum { LINES = 200000, PEAK = 123457 };
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl");
    FILE *out = fopen(path, "w");
    for (int i = 1; i <= LINES; i++)
        fprintf(out, "{\"kind\": \"train\", \"step\": %d, \"time\": %d, \"train/loss\": %g, \"train/lr\": %g}\n", i, i,
                i == PEAK ? 777.0 : 5.0 + i % 7, 1e-3 / i);
    fclose(out);
    char *page = story_page(directory);
    assert_true(strlen(page) > 10000);
    assert_contains(page, "drawn as their mean, within the band");
    assert_contains(page, ">1000</text>"); /* the axis reaches the one high value */
}

/* ---- several runs ---- */

TEST(runs_stand_side_by_side) {
    char *a = story_write(&story_finished);
    char *b = story_write(&(Story){4, story_falling, rising, .rate = "0.01", .end = NULL});
    char *path = kept_path(a, "both.html");
    const char *const directories[] = {a, b};
    PageSummary summary;
    if (!page_write(path, &(PageRequest){directories, 2, PAGE_DEPTH, false}, &summary, &error))
        fail_msg("%s", error.text);
    char *page = kept_text(path);
    assert_page_is_sound(page);
    assert_int_equal(summary.trainings, 2);
    assert_int_equal(summary.bytes, strlen(page));
    const char *names[] = {strrchr(a, '/') + 1, strrchr(b, '/') + 1};
    char *row =
        xformat("<th scope=\"row\">%s</th><td>no end recorded</td><td>val/auroc</td><td class=\"n\">0.65</td>"
                "<td class=\"n\">20</td><td class=\"n\">40</td><td class=\"n\">40</td><td class=\"n\">4h00m</td>"
                "<td class=\"n\">5.00 k tokens/s</td><td class=\"n\">34.0 %%</td><td class=\"n\">-</td>"
                "<td class=\"n\">3.20 EUR</td>",
                names[1]);
    char *legend = kept_format("%s validation", names[0]);
    assert_page_has(page, (const char *[]){"2 trainings: 1 finished, 1 no end recorded. The best val/auroc of each is "
                                           "from 0.65 to 0.655.",
                                           row, legend,
                                           "<th scope=\"row\">learning-rate</th><td>0.001</td><td>0.01</td>", NULL});
    assert_null(strstr(page, "<th scope=\"row\">name</th><td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>&lt;s"));
    free(row);
}

/* Returns the page of two directories. */
static char *page_of_two(const char *a, const char *b, PageSummary *summary) {
    char *directory = kept_folder(), *path = kept_path(directory, "report.html");
    const char *const directories[] = {a, b};
    if (!page_write(path, &(PageRequest){directories, 2, PAGE_DEPTH, false}, summary, &error))
        fail_msg("%s", error.text);
    return read_page(directory);
}

/* Tells a run with one record in a folder that is made for it; returns the folder. */
static char *tell_below(const char *parent, const char *name, const char *fields) {
    char *directory = kept_path(parent, name);
    char *log = kept_format("{\"kind\": \"start\", \"step\": 0, \"time\": 0, \"options\": {\"o\": \"%s\"}}\n"
                            "{\"kind\": \"train\", \"step\": 5, \"time\": 9, \"train/loss\": 3%s}\n",
                            name, fields);
    make_directories(directory);
    put_text(directory, "log.jsonl", log);
    return directory;
}

TEST(folders_of_one_name_are_told_apart) {
    char *parent = kept_folder();
    char *a = tell_below(parent, "a|x/finetune", ", \"train/hfu\": 0.41"), *b = tell_below(parent, "b:/finetune", "");
    PageSummary summary;
    char *page = page_of_two(a, b, &summary);
    assert_int_equal(summary.trainings, 2);
    assert_page_has(page,
                    (const char *[]){"<h1>a|x/finetune, b:/finetune</h1>", "<th scope=\"row\">a|x/finetune</th>",
                                     "<td class=\"n\">41.0 % HFU</td>",
                                     "<th scope=\"col\">a|x/finetune</th><th scope=\"col\">b:/finetune</th>", NULL});
}

TEST(a_folder_beside_its_parent_is_told_once) {
    char *parent = kept_folder(), *a = tell_below(parent, "a", ""), *slash = kept_format("%s/", a);
    PageSummary summary;
    page_of_two(parent, slash, &summary);
    assert_int_equal(summary.trainings, 1);
    page_of_two(a, parent, &summary);
    assert_int_equal(summary.trainings, 1);
    page_of_two(a, slash, &summary);
    assert_int_equal(summary.trainings, 1);
}

TEST(hundreds_of_runs_still_fit) {
    char *parent = kept_folder(), name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "run_%03d", i);
        char *run = kept_path(parent, name);
        make_directories(run);
        story_write_in(run, &story_finished);
    }
    char *page = story_page(parent);
    assert_page_has(page, (const char *[]){"300 trainings: 300 finished.", "The first 12 of 300 trainings are drawn.",
                                           "Not on this page", "too large for what is left of the page", NULL});
}

/* Damage in one folder costs the others nothing. */
TEST(folders_that_cannot_be_read_are_listed) {
    char *parent = kept_folder(), *a = kept_path(parent, "a"), *locked = kept_path(parent, "locked");
    make_directories(a);
    make_directories(locked);
    story_write_in(a, &story_finished);
    put_text(parent, "b/log.jsonl", "{\"kind\": \"train\", \"st\n{\"kind\": \"train\", \"step\": 60}\n");
    assert_int_equal(chmod(locked, 0) | chmod(parent, 0777), 0);
    bool root = !geteuid();
    if (root) assert_int_equal(seteuid(65534), 0);
    bool ok = page_write_in(parent, PAGE_DEPTH, false, &error), given = page_write_in(locked, 0, false, &error);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_true(ok && !given);
    assert_contains(error.text, "/locked: cannot read the folder: ");
    char *page = read_page(parent);
    assert_page_has(page,
                    (const char *[]){"Finished after all 50 steps.", "Not on this page", "<li>b: log.jsonl:1: column ",
                                     "<li>locked: cannot read the folder: ", NULL});
    assert_int_equal(chmod(locked, 0700), 0);
}

/* Between two folds, none of the trainings within is the one that writes the page. */
TEST(only_the_run_that_writes_the_page_is_running) {
    char *parent = kept_folder(), *fold = kept_path(parent, "fold_D1");
    make_directories(fold);
    story_write_in(fold, &(Story){5, story_falling, story_flat, .end = NULL});
    assert_true(page_write_in(parent, 1, true, &error));
    char *page = read_page(parent);
    assert_page_has(page, (const char *[]){"No end is recorded after step 50", "while the run went on", NULL});
}

TEST(a_warning_is_all_that_a_failed_page_costs) {
    char *directory = story_write(&story_finished), *path = kept_path(directory, "report.html");
    make_directories(path);
    assert_false(page_write_or_warn(directory, 0, false));
    assert_int_equal(rmdir(path), 0);
    assert_true(page_write_or_warn(directory, 0, false));
}

TEST(pages_take_little_of_the_time) {
    assert_true(page_pause(0.4, 1000) == 0);
    assert_true(page_pause(0.6, 1000) == 0.6 / 0.02);
    assert_true(page_pause(0.4, 40 << 20) == 600);
    assert_true(page_pause(30, 40 << 20) == 30 / 0.02);
}
