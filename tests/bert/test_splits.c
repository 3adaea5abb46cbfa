/* Classes of labels, and the division of texts into splits and folds. */
#include "data/bert/classes.h"
#include "data/bert/splits.h"
#include "data/bert/texts.h"
#include "tests/bert/texts_rig.h"

static Comments labelled(const char *labels) {
    char *text = xstrdup("text,label\n");
    for (const char *at = labels; *at; at += strcspn(at, " ") + (strchr(at, ' ') != NULL)) {
        char *longer = xformat("%stext,%.*s\n", text, (int)strcspn(at, " "), at);
        free(text);
        text = longer;
    }
    Comments c;
    Error error = {""};
    if (!comments_read(text_file("a.csv", text), &(CommentColumns){0}, LABELS_NEEDED, &c, &error))
        fail_msg("%s", error.text);
    free(text);
    return c;
}

static void check_names(const char *labels, const char *want) {
    Comments c = labelled(labels);
    Classes classes;
    Error error = {""};
    char *names = xstrdup("");
    if (!classes_find(&c, false, &classes, &error)) fail_msg("%s", error.text);
    for (int i = 0; i < classes.n; i++) {
        char *longer = xformat("%s%s ", names, classes.names[i]);
        free(names);
        names = longer;
        assert_int_equal(classes_at(&classes, classes.names[i]), i);
    }
    assert_string_equal(names, want);
    free(names);
    classes_free(&classes);
    comments_free(&c);
}

TEST(whole_numbers_are_sorted_as_numbers) {
    check_names("10 9 -1 9 2 10", "-1 2 9 10 ");
    check_names("10 9 clean -1", "-1 10 9 clean ");
    check_names("thô sạch tục thô", "sạch thô tục ");
}

TEST(a_label_outside_the_classes_is_named) {
    Comments c = labelled("0 1 0 2 1");
    Classes classes;
    Error error = {""};
    int32_t labels[5];
    assert_true(classes_parse("1,0", &classes, &error));
    assert_false(classes_assign(&classes, &c, labels, &error));
    assert_contains(error.text, "a.csv:5: the label \"2\" is none of the 2 classes: 1, 0");
    classes_free(&classes);
    assert_true(classes_find(&c, false, &classes, &error));
    assert_true(classes_assign(&classes, &c, labels, &error));
    assert_memory_equal(labels, ((int32_t[]){0, 1, 0, 2, 1}), sizeof labels);
    assert_true(classes_check(&classes, labels, 5, "validation", &error));
    assert_false(classes_check(&classes, labels, 3, "validation", &error));
    assert_string_equal(error.text,
                        "validation: none of its 3 texts has the label \"2\"; every split needs every class");
    classes_free(&classes);
    assert_true(classes_parse(" 2,  0 ,1", &classes, &error)); /* a label loses its blanks, too */
    assert_true(classes_assign(&classes, &c, labels, &error));
    assert_memory_equal(labels, ((int32_t[]){1, 2, 1, 0, 2}), sizeof labels);
    classes_free(&classes);
    comments_free(&c);
    static const char *const lists[] = {"a", "", "a,b,a", "a, a", "a, ,b"};
    for (int i = 0; i < 5; i++) assert_false(classes_parse(lists[i], &classes, &error));
    assert_contains(error.text, "name 2 is empty");
    c = labelled("1 1");
    assert_false(classes_find(&c, false, &classes, &error));
    assert_contains(error.text, "all labels are \"1\"");
    comments_free(&c);
    c = labelled("2 01 1");
    assert_false(classes_find(&c, false, &classes, &error));
    assert_contains(error.text, "a.csv: the labels \"01\" and \"1\" are the same number; write them alike");
    assert_null(classes.names);
    comments_free(&c);
}

TEST(labels_that_are_alike_are_refused_by_name) {
    static const char *const cases[][2] = {
        {"0 1 0.0 1.0 0", "the labels \"0\" and \"0.0\" are the same number; write them alike, or join them with "
                          "--merge-labels, or name all classes in --labels if they are two (texts: 2 and 1)"},
        {"True False TRUE", "the labels \"TRUE\" and \"True\" differ in case only"},
        {"\u0110a b \u0111A", "the labels \"\u0110a\" and \"\u0111A\" differ in case only"}};
    for (int i = 0; i < 3; i++) {
        Comments c = labelled(cases[i][0]);
        Classes classes;
        Error error = {""};
        assert_false(classes_find(&c, false, &classes, &error));
        assert_contains(error.text, cases[i][1]);
        assert_null(classes.names);
        comments_free(&c);
    }
    check_names("1.1 1.10 2", "1.1 1.10 2 "); /* sections of a text */
    check_names("Ma\u00df Mass", "Mass Ma\u00df ");
    check_names("0.5 0.25", "0.25 0.5 ");
}

TEST(merged_labels_have_the_name_of_most_texts) {
    Comments c = labelled("True 0.0 TRUE 0 TRUE False 0 true 0.0");
    Classes classes;
    Error error = {""};
    int32_t labels[9];
    assert_true(classes_make(NULL, true, &c, &classes, &error));
    assert_int_equal(classes.n, 3);
    assert_string_equal(classes.names[0], "0"); /* as many as 0.0: the first in order */
    assert_string_equal(classes.names[1], "False");
    assert_string_equal(classes.names[2], "TRUE");
    assert_true(classes_assign(&classes, &c, labels, &error));
    assert_memory_equal(labels, ((int32_t[]){2, 0, 2, 0, 2, 1, 0, 2, 0}), sizeof labels);
    classes.merge = false;
    assert_false(classes_assign(&classes, &c, labels, &error));
    assert_contains(error.text, "a.csv:2: the label \"True\" is none of the 3 classes: 0, False, TRUE; it and \"TRUE\" "
                                "differ in case only: --merge-labels joins them");
    classes_free(&classes);
    comments_free(&c);
}

TEST(names_that_are_given_may_be_alike) {
    Comments c = labelled("a A a");
    Classes classes;
    Error error = {""};
    int32_t labels[3];
    assert_true(classes_make("a, A", false, &c, &classes, &error));
    assert_true(classes_assign(&classes, &c, labels, &error));
    assert_memory_equal(labels, ((int32_t[]){0, 1, 0}), sizeof labels);
    classes_free(&classes);
    assert_false(classes_make("a,A", true, &c, &classes, &error));
    assert_contains(error.text,
                    "--labels a,A: \"a\" and \"A\" differ in case only, and --merge-labels joins such labels");
    assert_true(classes_make("\u00a0lo\u0300ng ,b", false, &c, &classes, &error));
    assert_string_equal(classes.names[0], "l\u00f2ng");
    classes_free(&classes);
    comments_free(&c);
    classes = classes_of((const char *const[]){"x", "lo\u0300ng"}, 2); /* of an older program */
    assert_int_equal(classes_at(&classes, "l\u00f2ng"), 1);
    assert_int_equal(classes_at(&classes, "long"), -1);
    classes_free(&classes);
}

TEST(a_column_of_free_text_is_not_taken_for_labels) {
    char *text = xmalloc(20000), *at = text;
    for (int i = 0; i <= BERT_MAX_CLASSES; i++) at += sprintf(at, "%sx%d", i ? " " : "", i);
    Comments c = labelled(text);
    Classes classes;
    Error error = {""};
    assert_false(classes_find(&c, false, &classes, &error));
    assert_contains(error.text, "a.csv:1002: more than 1000 different labels");
    comments_free(&c);
    free(text);
}

/* scikit-learn's compute_class_weight("balanced") of 19,886 and 4,162 labels. */
TEST(balanced_weights_are_those_of_scikit_learn) {
    enum { N = 24048, ONES = 4162 };
    int32_t *labels = xcalloc(N, sizeof *labels);
    float weights[2];
    for (int i = 0; i < ONES; i++) labels[5 * i] = 1;
    classes_balance(labels, N, 2, weights);
    assert_near(weights[0], 0.6046464850, 3e-8);
    assert_near(weights[1], 2.8889956752, 1.2e-7);
    free(labels);
}

/* ---- splits ---- */

enum { TEXTS = 1003, CLASSES = 3 };

/* Labels with 10, 200 and 793 texts, mixed. */
static void make_labels(int32_t *labels) {
    for (int i = 0; i < TEXTS; i++) labels[i] = i % 100 == 7 && i < 1000 ? 0 : i % 5 == 3 ? 1 : 2;
}

static int count(const int32_t *split, const int32_t *labels, int which, int class) {
    int n = 0;
    for (int i = 0; i < TEXTS; i++) n += split[i] == which && (class < 0 || labels[i] == class);
    return n;
}

TEST(every_class_is_divided_by_the_shares) {
    static const double all_shares[][BERT_SPLITS] = {{0.8, 0.1, 0.1}, {0.7, 0.3, 0}, {0.34, 0.33, 0.33}};
    int32_t labels[TEXTS], split[TEXTS], again[TEXTS], other[TEXTS];
    make_labels(labels);
    SplitRows rows = {.n = TEXTS, .labels = labels, .classes = CLASSES};
    Error error = {""};
    for (int k = 0; k < 3; k++) {
        const double *shares = all_shares[k];
        assert_true(splits_divide(&rows, shares, 42, split, &error));
        assert_true(splits_divide(&rows, shares, 42, again, &error));
        assert_true(splits_divide(&rows, shares, 43, other, &error));
        assert_memory_equal(split, again, sizeof split);
        assert_memory_not_equal(split, other, sizeof split);
        for (int s = 0; s < BERT_SPLITS; s++) {
            assert_true(fabs(count(split, labels, s, -1) - TEXTS * shares[s]) < 2);
            for (int c = 0; c < CLASSES; c++) {
                int n = count(split, labels, s, c), all = count(labels, labels, c, -1);
                if (fabs(n - all * shares[s]) >= 1) fail_msg("class %d has %d of %d texts in split %d", c, n, all, s);
            }
        }
    }
    int32_t *list;
    assert_int_equal(splits_list(split, TEXTS, BERT_TEST, &list), count(split, labels, BERT_TEST, -1));
    for (int i = 0; i < count(split, labels, BERT_TEST, -1); i++) assert_int_equal(split[list[i]], BERT_TEST);
    free(list);
}

TEST(folds_of_a_class_differ_by_one_text) {
    int32_t labels[TEXTS], fold[TEXTS];
    make_labels(labels);
    SplitRows rows = {.n = TEXTS, .labels = labels, .classes = CLASSES};
    Error error = {""};
    for (int k = 2; k <= 10; k++) {
        assert_true(splits_fold(&rows, k, 1, fold, &error));
        for (int c = -1; c < CLASSES; c++) {
            int least = TEXTS, most = 0;
            for (int f = 0; f < k; f++) {
                int n = count(fold, labels, f, c);
                least = n < least ? n : least;
                most = n > most ? n : most;
            }
            if (most - least > 1) fail_msg("%d folds of class %d have %d to %d texts", k, c, least, most);
        }
    }
    static const char *const names[] = {"rare", "b", "c"};
    rows.names = (char *const *)(uintptr_t)names;
    assert_false(splits_fold(&rows, 11, 1, fold, &error));
    assert_contains(error.text, "class \"rare\" has 10 different texts for 11 parts; none is left for fold 11");
    for (int i = 0; i < TEXTS; i++) labels[i] = i > 2;
    assert_false(splits_divide(&rows, (double[]){0.8, 0.1, 0.1}, 1, fold, &error));
    assert_contains(error.text, "class \"rare\" has 3 different texts for 3 parts; none is left for validation");
    rows = (SplitRows){.n = 1, .classes = 1}; /* no labels: no class is named */
    assert_false(splits_divide(&rows, (double[]){0.9, 0.1, 0}, 1, fold, &error));
    assert_string_equal(error.text, "the data have 1 different text for 2 parts; none is left for validation");
}

TEST(equal_texts_stay_together) {
    enum { KINDS = 300 };
    const char *texts[TEXTS];
    char names[TEXTS][16];
    int32_t groups[TEXTS], labels[TEXTS], split[TEXTS], fold[TEXTS];
    for (int i = 0; i < TEXTS;
         i++) { /* text k occurs about 1003 / (2 sqrt(300 k)) times, with white space of its own */
        int kind = (int)((double)(i % 71) / 71 * (i % 71) / 71 * KINDS) + (i % 7 ? 0 : KINDS);
        snprintf(names[i], sizeof names[i], i % 2 ? " x  %d" : "x %d\n", kind);
        texts[i] = names[i];
        labels[i] = kind % 2;
    }
    texts_groups(texts, TEXTS, groups);
    SplitRows rows = {.n = TEXTS, .labels = labels, .classes = 2, .groups = groups};
    Error error = {""};
    assert_true(splits_divide(&rows, (double[]){0.6, 0.2, 0.2}, 3, split, &error));
    assert_true(splits_fold(&rows, 5, 3, fold, &error));
    int largest = 0, shared = 0;
    for (int i = 0; i < TEXTS; i++) {
        int same = 0;
        for (int j = 0; j < TEXTS; j++) same += groups[j] == i;
        largest = same > largest ? same : largest;
        shared += groups[i] != i;
        assert_int_equal(split[i], split[groups[i]]);
        assert_int_equal(fold[i], fold[groups[i]]);
    }
    assert_true(shared > TEXTS / 4 && largest > 3);
    for (int c = 0; c < 2; c++)
        for (int s = 0; s < BERT_SPLITS; s++)
            assert_true(fabs(count(split, labels, s, c) - (s ? 0.2 : 0.6) * count(labels, labels, c, -1)) < largest);
}
