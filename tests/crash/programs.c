/* The runs that are disturbed: each a second or less, with validations that get better and then worse, and checkpoints
 * that make way for others. */
#include <errno.h>

#include "data/audio.h"
#include "tests/crash/crash.h"
#include "tests/crash/trace.h"
#include "tests/train_rig.h"

static int every;
static char refusal[256]; /* why no program can be traced here; "": it can */

/* Says why everything is skipped. Where a tracer is to be expected the tests fail for that reason instead. */
static int try_tracer(void **state) {
    (void)state;
    const Fault none = {.kind = FAULT_NONE};
    Trace trace = {.status = 0};
    if (trace_run(".", "exit 0", &none, &trace, refusal, sizeof refusal)) refusal[0] = 0;
    if (*refusal) print_message("SKIPPED: programs that are killed at operations on files: %s\n", refusal);
    return 0;
}

static void need_tracer(void) {
    const char *ci = getenv("CI");
#ifdef __x86_64__
    if (*refusal && ci && !strcmp(ci, "true")) fail_msg("%s", refusal);
#endif
    if (*refusal) skip();
}

/* A fresh folder in memory, where there is one, with an empty start/ in it. */
static char *open_root(void) {
    need_tracer();
    if (!getenv("TMPDIR") && !access("/dev/shm", W_OK)) setenv("TMPDIR", "/dev/shm", 1);
    char *root = scratch_directory(), *start = path_join(root, "start");
    make_directories(start);
    free(start);
    return root;
}

/* Runs a command in the folder, which must succeed. */
static void make(const char *root, const char *command) {
    int status = run_command(fixture.output, sizeof fixture.output, "cd %s && %s", root, command);
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, fixture.output);
}

static void train_gpt(void **state) {
    (void)state;
    char *root = open_root(), *manifest = path_join(root, "manifest.jsonl");
    FILE *file = fopen(manifest, "w");
    assert_non_null(file);
    for (int i = 0; i < SAMPLES; i++) write_sample(file, root, i, 0);
    assert_int_equal(fclose(file), 0);
    crash_at_every(
        every, root,
        &(CrashRun){.command = "exec $PROGRAMS/train_gpt -m ../manifest.jsonl --model-dim 64 --layers 1 --heads 2 "
                               "--number-text-tokens 50 --number-mel-codes 42 --max-text-tokens 40 --max-mel-tokens 80 "
                               "--warmup-steps 1 --learning-rate 3e-2 --threads 1 --num-workers 1 -b 4 --max-steps 8 "
                               "--epochs 100 --val-ratio 0.3 --log-interval 1 --val-interval 2 --save-interval 3 "
                               "--keep-checkpoints 1 -o run --resume auto",
                    .log = "run/log.jsonl",
                    .lowest = "val/objective"});
    free(manifest);
    free(root);
}

/* Spectra, the manifest and splits of them. free() */
static char *open_spectra(void) {
    char *root = open_root();
    make(root, "$PROGRAMS/prepare_psd --synthetic raw --sensors 2 --rows 6 --num-workers 1");
    make(root, "$PROGRAMS/prepare_psd --input raw --output data --num-workers 1");
    return root;
}

#define PSD_OPTIONS                                                                                                    \
    "-m ../data/manifest.csv --split ../data/splits/pooled_seed42_frac1.0.json --threads 1 --num-workers 1 "           \
    "--size tiny --d-model 16 --n-layers 1 --n-heads 2 --ffn-dim 16 -b 16 --log-interval 1 --save-interval 3 "         \
    "--keep-checkpoints 1 -o run --resume auto "

static void train_psd_pretrain(void **state) {
    (void)state;
    char *root = open_spectra();
    crash_at_every(
        every, root,
        &(CrashRun){.command = "exec $PROGRAMS/train_psd pretrain " PSD_OPTIONS
                               "--decoder-dim 16 --decoder-layers 1 --projection-dim 16 --epochs 4 --warmup-epochs 3 "
                               "--max-steps 8 --val-interval 1 --learning-rate 0.5",
                    .log = "run/log.jsonl",
                    .lowest = "val/mae_loss"});
    free(root);
}

static void train_psd_finetune(void **state) {
    (void)state;
    char *root = open_spectra();
    crash_at_every(every, root,
                   &(CrashRun){.command = "exec $PROGRAMS/train_psd finetune " PSD_OPTIONS
                                          "--epochs 4 --learning-rate 5e-2 --seed 3",
                               .log = "run/log.jsonl",
                               .lowest = "-val/macro_f1"});
    free(root);
}

/* All stages, each of which takes up what the one before has left. */
static void train_psd_run(void **state) {
    (void)state;
    char *root = open_spectra(), *pretrain = path_join(root, "pretrain.yaml"), *tune = path_join(root, "tune.yaml");
    static const char *const both = "batch_size: 16\nlog_interval: 2\nsave_interval: 2\nkeep_checkpoints: 1\nsize: "
                                    "tiny\nnum_workers: 1\n"
                                    "encoder: {d_model: 16, n_layers: 1, n_heads: 2, ffn_dim: 16}\n";
    write_text(pretrain,
               "%sepochs: 2\nmax_steps: 4\nval_interval: 1\nwarmup_epochs: 1\nlearning_rate: 0.5\n"
               "mpae: {decoder_dim: 16, decoder_layers: 1}\nsicr: {projection_dim: 16}\n",
               both);
    write_text(tune, "%sepochs: 3\nlearning_rate: 5.0e-2\n", both);
    crash_at_every(every, root,
                   &(CrashRun){.command = "exec $PROGRAMS/train_psd run -m ../data/manifest.csv --split "
                                          "../data/splits/pooled_seed42_frac1.0.json --threads 1 --seed 3 "
                                          "--pretrain-config ../pretrain.yaml --finetune-config ../tune.yaml -o run",
                               .log = "run/pretrain/log.jsonl",
                               .lowest = "val/mae_loss",
                               .alike = "@(run|run/calibration|*.@(csv|svg|md).*)"});
    free(pretrain);
    free(tune);
    free(root);
}

static void train_cv(void **state) {
    (void)state;
    char *root = open_root();
    make(root, "$PROGRAMS/prepare_flim --synthetic cells --cells 24 --donors 3 --bins 32 --side 7 --num-workers 1");
    make(root, "$PROGRAMS/prepare_flim --input cells --num-workers 1");
    crash_at_every(
        every, root,
        &(CrashRun){.command =
                        "exec $PROGRAMS/train_cv -d ../cells.flim.safetensors -o run --threads 1 --num-workers 1 "
                        "--channels 8,8,8 -b 8 --epochs 4 --learning-rate 3e-2 --shift 2 --keep-checkpoints 1 "
                        "--folds D1,D2 --save-interval 2 --log-interval 1 --seed 3 --resume auto",
                    .log = "run/fold_D1/log.jsonl",
                    .lowest = "-val/auroc",
                    .alike = "@(run|*.@(csv|svg|md).*)"});
    free(root);
}

static void prepare_tts(void **state) {
    (void)state;
    static const char *const words[] = {"ሰላም", "ለዓለም", "ዛሬ", "ጥሩ", "ቀን", "ነው"};
    char *root = open_root(), *list = path_join(root, "list.tsv");
    FILE *file = fopen(list, "w");
    assert_non_null(file);
    for (int i = 0; i < 4; i++) {
        char *name = xformat("%s/c%d.wav", root, i);
        float samples[24000];
        for (int k = 0; k < 24000; k++)
            samples[k] = 0.2f * sinf((float)k * 0.02f * (float)(i + 1 + k / 4000)) +
                         0.01f * philox_normal((uint64_t)i, PURPOSE_TEST, 0, (uint64_t)k);
        Error error;
        if (!audio_write(name, samples, 24000, 24000, &error)) fail_msg("%s", error.text);
        fprintf(file, "c%d\ts%d\tc%d.wav\t%s %s %s %s።\n", i, i % 2, i, words[i % 6], words[(i + 1) % 6],
                words[(i + 3) % 6], words[(5 * i + 2) % 6]);
        free(name);
    }
    assert_int_equal(fclose(file), 0);
    crash_at_every(every, root,
                   &(CrashRun){.command =
                                   "exec $PROGRAMS/prepare_tts -i ../list.tsv -o out --vocabulary 40 --codebook-size 8 "
                                   "--d-model 16 --val-ratio 0.3 --num-workers 1"});
    free(list);
    free(root);
}

static void prepare_psd(void **state) {
    (void)state;
    char *root = open_root();
    make(root, "$PROGRAMS/prepare_psd --synthetic raw --sensors 2 --rows 6 --num-workers 1");
    crash_at_every(every, root,
                   &(CrashRun){.command = "exec $PROGRAMS/prepare_psd --input ../raw --output data --num-workers 1"});
    free(root);
}

static void prepare_psd_synthetic(void **state) {
    (void)state;
    char *root = open_root();
    crash_at_every(
        every, root,
        &(CrashRun){.command = "exec $PROGRAMS/prepare_psd --synthetic raw --sensors 1 --rows 3 --num-workers 1",
                    .done = "is there already"});
    free(root);
}

static void prepare_flim(void **state) {
    (void)state;
    char *root = open_root();
    make(root,
         "$PROGRAMS/prepare_flim --synthetic start/cells --cells 24 --donors 3 --bins 32 --side 7 --num-workers 1");
    crash_at_every(every, root, &(CrashRun){.command = "exec $PROGRAMS/prepare_flim --input cells --num-workers 1"});
    free(root);
}

static void prepare_flim_synthetic(void **state) {
    (void)state;
    char *root = open_root();
    crash_at_every(
        every, root,
        &(CrashRun){.command = "exec $PROGRAMS/prepare_flim --synthetic cells --cells 4 --donors 2 --bins 32 --side 7 "
                               "--num-workers 1",
                    .done = "is there already"});
    free(root);
}

/* ---- the tracer itself ---- */

/* A shell writes ten bytes into a, makes the folder d, writes ten bytes into b. Returns what is in the files then. */
static const char *after(FaultKind kind, int error, int at, int status) {
    static char found[64];
    static const char *const command = "printf 0123456789 >a; mkdir d; printf 0123456789 >b";
    char *root = open_root(), said[1024];
    const Fault fault = {kind, error, BY_FIRST, at};
    Trace trace = {.status = 0};
    if (!trace_run(root, command, &fault, &trace, said, sizeof said)) fail_msg("%s", said);
    assert_int_equal(trace.status, status);
    assert_true(!trace.hung && trace.reached == (kind != FAULT_NONE));
    run_command(found, sizeof found, "cd %s; for f in a b; do [ -e $f ] && echo $f $(cat $f); done; true", root);
    free(root);
    return found;
}

static void the_tracer_does_what_it_is_told(void **state) {
    (void)state;
    assert_string_equal(after(FAULT_NONE, 0, 0, 0), "a 0123456789\nb 0123456789\n");
    assert_string_equal(after(FAULT_KILL, 0, 1, 128 + SIGKILL), "");
    assert_string_equal(after(FAULT_KILL, 0, 2, 128 + SIGKILL), "a\n");
    assert_string_equal(after(FAULT_TEAR, 0, 2, 128 + SIGKILL), "a 01234\n");
    assert_string_equal(after(FAULT_FAIL, ENOSPC, 2, 0), "a\nb 0123456789\n");
    assert_string_equal(after(FAULT_BREAK, EIO, 2, 2), "a\n");
}

int crash_tests(int stride) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tracer_does_what_it_is_told),
        cmocka_unit_test(train_gpt),
        cmocka_unit_test(train_psd_pretrain),
        cmocka_unit_test(train_psd_finetune),
        cmocka_unit_test(train_psd_run),
        cmocka_unit_test(train_cv),
        cmocka_unit_test(prepare_tts),
        cmocka_unit_test(prepare_psd),
        cmocka_unit_test(prepare_psd_synthetic),
        cmocka_unit_test(prepare_flim),
        cmocka_unit_test(prepare_flim_synthetic),
    };
    const char *build = getenv("BUILD");
    char *programs = realpath(build ? build : "build/release", NULL);
    every = stride;
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* which cannot be done to a program that is traced */
    setenv("PROGRAMS", programs ? programs : "", 1);
    free(programs);
    return cmocka_run_group_tests(tests, try_tracer, NULL);
}
