/* Synthetic comments: the same for a seed, no two alike, labelled by their meaning, with patterns and words held out;
 * and the baselines on them. */
#include <unistd.h>

#include "data/bert/comments.h"
#include "data/bert/synthetic.h"
#include "data/text/strings.h"
#include "tests/bert/use_rig.h"

static Error error;

static const char *const names[SYNTHETIC_FILES] = {"train.csv", "valid.csv", "test.csv", "unlabelled.txt"};
static const BertSynthetic small = {.rows = {400, 100, 200, 900}, .noise = 1, .seed = 5},
                           plain = {.rows = {1500, 300, 600, 1500}, .noise = 0, .seed = 5};

static char *synthesize(const BertSynthetic *o) {
    char *folder = kept_folder();
    if (!bert_synthetic_write(folder, o, &error)) fail_msg("%s", error.text);
    return folder;
}

static Comments read_comments(const char *folder, int file, const char *id) {
    char *path = kept_path(folder, names[file]);
    Comments comments;
    if (!comments_read(path, &(CommentColumns){.id = id}, file != SYNTHETIC_UNLABELLED ? LABELS_NEEDED : LABELS_UNUSED,
                       &comments, &error))
        fail_msg("%s", error.text);
    return comments;
}

TEST(a_seed_decides_every_byte) {
    BertSynthetic other = small;
    other.seed = 6;
    char *a = synthesize(&small), *b = synthesize(&small), *c = synthesize(&other);
    for (int f = 0; f < SYNTHETIC_FILES; f++) {
        must_run("cmp %s/%s %s/%s", a, names[f], b, names[f]);
        assert_int_equal(
            run_command(fixture.output, sizeof fixture.output, "cmp -s %s/%s %s/%s", a, names[f], c, names[f]), 1);
    }
    char *folders[] = {a, b, c};
    for (int i = 0; i < 3; i++) free(folders[i]);
}

TEST(no_comment_occurs_twice) {
    char *folder = synthesize(&small);
    Strings seen = {0};
    int64_t all = 0;
    for (int f = 0; f < SYNTHETIC_FILES; f++) {
        Comments comments = read_comments(folder, f, NULL);
        assert_int_equal(comments.n, small.rows[f]);
        for (int64_t i = 0; i < comments.n; i++) strings_add(&seen, comments.texts[i], strlen(comments.texts[i]));
        all += comments.n;
        comments_free(&comments);
    }
    assert_int_equal(seen.n, all);
    strings_free(&seen);
}

static bool has_one_of(const char *text, const char *const *words, int n) {
    for (int i = 0; i < n; i++)
        if (strstr(text, words[i])) return true;
    return false;
}

/* Words of the grammar that labelled training comments must not have, and others that they have. */
TEST(words_are_held_out) {
    static const char *const held_out[] = {"câm miệng", "tấm gương", "trẻ trâu", "nhiệt tình"};
    static const char *const known[] = {"cút", "thiên tài", "dốt", "lịch sự"};
    char *folder = synthesize(&plain);
    for (int f = 0; f < SYNTHETIC_FILES; f++) {
        Comments comments = read_comments(folder, f, NULL);
        int64_t with_held_out = 0, with_known = 0;
        for (int64_t i = 0; i < comments.n; i++) {
            with_held_out += has_one_of(comments.texts[i], held_out, 4);
            with_known += has_one_of(comments.texts[i], known, 4);
        }
        assert_true(with_known > comments.n / 20);
        if (f == SYNTHETIC_TRAIN)
            assert_int_equal(with_held_out, 0);
        else
            assert_true(with_held_out > comments.n / 50);
        comments_free(&comments);
    }
}

/* A statement that begins with "ai cũng thấy" is in several frames, and each frame has it in one file only, the
 * unlabelled comments aside. */
TEST(patterns_are_held_out) {
    static const char *const frames[] = {"đâu phải ai cũng thấy", "không có chuyện ai cũng thấy", "ngờ ai cũng thấy",
                                         "làm gì có chuyện ai cũng thấy", "đọc là biết ai cũng thấy"};
    char *folder = synthesize(&plain);
    int64_t counts[SYNTHETIC_FILES][5] = {{0}}, labelled[3] = {0};
    for (int f = 0; f < SYNTHETIC_FILES; f++) {
        Comments comments = read_comments(folder, f, NULL);
        for (int64_t i = 0; i < comments.n; i++)
            for (int k = 0; k < 5; k++) counts[f][k] += strstr(comments.texts[i], frames[k]) != NULL;
        comments_free(&comments);
    }
    for (int k = 0; k < 5; k++) {
        int files = 0;
        for (int f = 0; f < 3; f++) {
            files += counts[f][k] > 0;
            labelled[f] += counts[f][k];
        }
        if (files > 1) fail_msg("%s is in %d files", frames[k], files);
        if (counts[SYNTHETIC_TEST][k]) assert_int_equal(counts[SYNTHETIC_UNLABELLED][k], 0);
    }
    assert_true(labelled[SYNTHETIC_TRAIN] > 0 && labelled[SYNTHETIC_TEST] > 0);
}

/* Comments of one sentence with these words, by an independent rule: what is denied turns round. */
TEST(the_meaning_decides_the_class) {
    static const char *const blame[] = {"ngu", "dốt", "đần", "khùng"}, *const praise[] = {"giỏi", "thông minh", "tử tế",
                                                                                          "chăm chỉ"};
    static const struct {
        const char *words;
        bool denied;
    } frames[] = {{"âu phải ", true}, {"àm gì có chuyện ", true}, {"ọc là biết ", false}, {"càng thấy ", false}};
    char *folder = synthesize(&plain);
    int64_t checked[2] = {0}, rude = 0;
    Comments comments = read_comments(folder, SYNTHETIC_TRAIN, "kind");
    for (int64_t i = 0; i < comments.n; i++) {
        const char *text = comments.texts[i];
        bool is_rude = !strcmp(comments.labels[i], "rude"), bad = has_one_of(text, blame, 4);
        rude += is_rude;
        if (!strcmp(comments.ids[i], "oneself")) assert_false(is_rude);
        if (bad == has_one_of(text, praise, 4) || strpbrk(text, ",\n") || strstr(text, ". ")) continue;
        for (int k = 0; k < 4; k++) {
            if (!strstr(text, frames[k].words)) continue;
            if (is_rude != (bad != frames[k].denied)) fail_msg("%s is %s", text, comments.labels[i]);
            checked[frames[k].denied]++;
        }
    }
    assert_true(checked[0] >= 10 && checked[1] >= 5);
    assert_near((double)rude / (double)comments.n, 0.4, 5 * sqrt(0.24 / (double)comments.n));
    comments_free(&comments);
}

/* Without noise every comment with a letter of Vietnamese keeps it; with noise some lose all of them. */
TEST(noise_is_as_much_as_is_asked_for) {
    BertSynthetic o = {.seed = 1};
    int bare[3] = {0}, emoji[3] = {0};
    for (int level = 0; level < 3; level++) {
        o.noise = level;
        for (uint32_t draw = 0; draw < 500; draw++) {
            BertSyntheticComment comment = bert_synthetic_comment(&o, SYNTHETIC_TRAIN, draw);
            bool marks = false;
            for (const unsigned char *at = (const unsigned char *)comment.text; *at; at++) {
                emoji[level] += *at == 0xF0;
                marks = marks || (*at >= 0xC3 && *at <= 0xC6) || *at == 0xE1; /* begins a letter of Vietnamese */
            }
            bare[level] += !marks;
            free(comment.text);
        }
    }
    assert_int_equal(emoji[0], 0);
    assert_true(emoji[1] > 100 && emoji[2] > emoji[1]);
    assert_true(bare[1] > bare[0] + 10 && bare[2] > bare[1]);
}

TEST(a_folder_with_comments_is_refused) {
    char *folder = synthesize(&(BertSynthetic){.rows = {5, 5, 5, 5}});
    assert_false(bert_synthetic_write(folder, &small, &error));
    assert_contains(error.text, "train.csv is there already; choose a new folder");
}

/* CountVectorizer(token_pattern=r"(?u)[^\W_]+|[^\w\s]|_"), LogisticRegression(C, tol=1e-10) and
 * f1_score(average="macro") of scikit-learn on the same files, C chosen on valid.csv. */
TEST(baselines_are_those_of_scikit_learn) {
    char *folder = kept_folder();
    bert_must_use("synthesize -o %s/made --train 600 --valid 200 --test 300 --unlabelled 1 --seed 3", folder);
    bert_must_use("baselines %s/made", folder);
    assert_contains(fixture.output, "600 texts to train on, 200 to validate, 300 to test; 2 classes");
    assert_contains(fixture.output, "majority           0.5833    0.3684  always polite");
    assert_contains(fixture.output,
                    "words              0.6900    0.6554  logistic regression on 516 features, C = 0.3;");
    assert_contains(fixture.output,
                    "words and pairs    0.6900    0.6504  logistic regression on 3671 features, C = 0.3; "
                    "validation macro F1 0.5925");
}

TEST(what_has_no_baseline_is_named) {
    char *folder = kept_folder();
    bert_must_use("synthesize -o %s/made --train 40 --valid 20 --test 20 --unlabelled 1", folder);
    must_run("cd %s && cp -r made less && rm less/valid.csv && cp -r made more && echo 'a,odd,b' >>more/test.csv",
             folder);
    const Refusal refusals[] = {
        {1, "less", "there is no file valid in it, such as valid.csv"},
        {1, "more", "odd"},
        {1, "made --label-column mood", "mood"},
        {1, "made --labels polite,kind", "rude"},
        {1, "made --labels polite,rude,kind", "train.csv: none of its 40 texts has the label \"kind\""},
        {2, "", "data"}};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(bert_use("baselines %s%s%s", *refusals[i].options ? folder : "", *refusals[i].options ? "/" : "",
                                refusals[i].options),
                       &refusals[i]);
}
