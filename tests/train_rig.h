/* For tests that run train_gpt as a user runs it: a data set of a few npy files, a run to compare others with, and what
 * runs leave behind. */
#ifndef TESTS_TRAIN_RIG_H
#define TESTS_TRAIN_RIG_H

#include "tests/files.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/philox.h"

enum { SAMPLES = 24, D_MODEL = 64, TEXT_PIECES = 50, CODES = 40 };

static const char *const model_options =
    "--model-dim 64 --layers 2 --heads 4 --number-text-tokens 50 --number-mel-codes 42 --max-text-tokens 40 "
    "--max-mel-tokens 80 --epochs 1000 --warmup-steps 2 --learning-rate 1e-3 --threads 2";

/* Of the build that is tested. `which`: what follows it in the path, "train_gpt". */
static inline const char *program_at(const char *which) {
    static char path[256];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/%s", build ? build : "build/release", which);
    return path;
}

static inline uint32_t draw(uint64_t sample, uint64_t element, uint32_t below) {
    return philox_bits(sample, PURPOSE_TEST, 9, element) % below;
}

/* One utterance's four files and its manifest line. long_codes: so many codes, 0: 10 to 59. */
static inline void write_sample(FILE *manifest, const char *directory, int i, int long_codes) {
    int32_t text[30], codes[400];
    float condition[32 * D_MODEL], emotion[D_MODEL];
    int text_len = 3 + (int)draw((uint64_t)i, 0, 20),
        code_len = long_codes ? long_codes : 10 + (int)draw((uint64_t)i, 1, 50);
    for (int t = 0; t < text_len; t++) text[t] = 3 + (int32_t)draw((uint64_t)i, 100 + (uint64_t)t, TEXT_PIECES - 3);
    for (int t = 0; t < code_len; t++) codes[t] = (text[t % text_len] * 7 + t / 8) % CODES;
    for (int t = 0; t < 32 * D_MODEL; t++)
        condition[t] = philox_normal((uint64_t)i, PURPOSE_TEST, 1, (uint64_t)t) * 0.1f;
    for (int t = 0; t < D_MODEL; t++) emotion[t] = philox_normal((uint64_t)i, PURPOSE_TEST, 2, (uint64_t)t) * 0.1f;
    char name[32];
    snprintf(name, sizeof name, "t%d.npy", i);
    write_npy(directory, name, "<i4", text, 1, text_len, 0);
    snprintf(name, sizeof name, "c%d.npy", i);
    write_npy(directory, name, "<i4", codes, 1, code_len, 0);
    snprintf(name, sizeof name, "k%d.npy", i);
    write_npy(directory, name, "<f4", condition, 2, 32, D_MODEL);
    snprintf(name, sizeof name, "e%d.npy", i);
    write_npy(directory, name, "<f4", emotion, 1, D_MODEL, 0);
    fprintf(manifest,
            "{\"id\": \"utterance_%d\", \"audio_path\": \"a%d.wav\", \"text\": \"x\", \"speaker\": \"s\", "
            "\"language\": \"am\", "
            "\"duration\": %.3f, \"text_ids_path\": \"t%d.npy\", \"text_len\": %d, \"codes_path\": \"c%d.npy\", "
            "\"code_len\": %d, "
            "\"condition_path\": \"k%d.npy\", \"condition_len\": 32, \"emo_vec_path\": \"e%d.npy\"}\n",
            i, i, (code_len + 1) / 50.0, i, text_len, i, code_len, i, i);
}

/* A directory with manifest.jsonl and its files. */
static inline char *make_data(int long_codes) {
    char *directory = scratch_directory(), *path = path_join(directory, "manifest.jsonl");
    FILE *manifest = fopen(path, "w");
    assert_non_null(manifest);
    for (int i = 0; i < SAMPLES; i++) write_sample(manifest, directory, i, long_codes);
    assert_int_equal(fclose(manifest), 0);
    free(path);
    return directory;
}

typedef struct {
    const char *program;
    char *data, *manifest;
    char output[1 << 16];
} Fixture;

static Fixture fixture;

/* Trains into `run` with extra options; the exit status; what it said is in fixture.output. */
static inline int train(const char *run, const char *extra, ...) __attribute__((format(printf, 2, 3)));
static inline int train(const char *run, const char *extra, ...) {
    char more[2048];
    va_list arguments;
    va_start(arguments, extra);
    vsnprintf(more, sizeof more, extra, arguments);
    va_end(arguments);
    return run_command(fixture.output, sizeof fixture.output, "%s -m %s %s --output-dir %s -b 3 -g 2 %s",
                       fixture.program, fixture.manifest, model_options, run, more);
}

static inline void must_train(const char *run, const char *extra) {
    int status = train(run, "%s", extra);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

/* The files of the run's last checkpoint are the same bytes. */
static inline void assert_same_result(const char *a, const char *b) {
    const char *const names[] = {"last/model.safetensors", "last/optimizer.safetensors"};
    for (int i = 0; i < 2; i++) {
        int status = run_command(fixture.output, sizeof fixture.output, "cmp %s/%s %s/%s", a, names[i], b, names[i]);
        if (status) fail_msg("%s", fixture.output);
    }
}

static inline void assert_same_losses(const char *a, const char *b) {
    double x[64], y[64];
    int n = logged(a, "train", "train/mel_loss", x, 64);
    assert_true(n > 0);
    assert_int_equal(n, logged(b, "train", "train/mel_loss", y, 64));
    for (int i = 0; i < n; i++) assert_true(x[i] == y[i]);
}

static const char *const short_run =
    "--max-steps 12 --log-interval 1 --save-interval 3 --val-interval 4 --val-ratio 0.2";

/* The run that all others are compared with, made once. */
static inline const char *reference_run(void) {
    static char *run;
    if (!run) {
        run = scratch_directory();
        must_train(run, short_run);
    }
    return run;
}

/* Starts a command in the background; what it says goes to RUN/output. */
static inline pid_t start_command(const char *run, const char *command) {
    char *all = xformat("exec %s >%s/output 2>&1", command, run);
    pid_t child = fork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", all, (char *)NULL);
        _exit(127);
    }
    free(all);
    return child;
}

static inline pid_t start_training(const char *run, const char *options) {
    char *command = xformat("%s -m %s %s --output-dir %s -b 3 -g 2 %s", fixture.program, fixture.manifest,
                            model_options, run, options);
    pid_t child = start_command(run, command);
    free(command);
    return child;
}

/* Waits until log.jsonl has a line of step `step`, or the program has ended by itself. */
static inline void wait_for_step(const char *run, pid_t child, int step) {
    char *log = path_join(run, "log.jsonl"), *wanted = xformat("\"step\": %d,", step);
    siginfo_t ended = {.si_pid = 0};
    for (bool there = false; !there && !ended.si_pid; usleep(1000)) {
        char *text = access(log, R_OK) ? xstrdup("") : read_text(log);
        there = strstr(text, wanted) != NULL;
        free(text);
        assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    free(log);
    free(wanted);
}

/* Sends a program a signal at a step. Its exit status, or 128 + the signal that ended it. */
static inline int signal_at_step(const char *run, pid_t child, int step, int number) {
    int status;
    wait_for_step(run, child, step);
    kill(child, number);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int train_and_signal(const char *run, const char *options, int step, int number) {
    return signal_at_step(run, start_training(run, options), step, number);
}

/* A copy of a run's last weights whose last norm is finite, and too large for what is computed from it: the loss is
 * not a number. */
static inline char *write_overflowing_base(const char *run, const char *directory) {
    char *base = path_join(directory, "base.safetensors"), *path = path_join(run, "last/model.safetensors");
    Error error;
    TensorFile file;
    assert_true(tensor_file_open(path, &file, &error));
    TensorToWrite tensors[64];
    float *bad = NULL;
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        tensors[i] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[i].dims, t->dims, sizeof t->dims);
        if (strcmp(t->name, "gpt.ln_f.weight")) continue;
        bad = xmalloc(t->bytes);
        memcpy(bad, t->data, t->bytes);
        for (int64_t k = 0; k < t->count; k++) bad[k] = FLT_MAX;
        tensors[i].data = bad;
    }
    assert_non_null(bad);
    assert_true(safetensors_write(base, tensors, file.n_tensors, NULL, NULL, 0, &error));
    tensor_file_close(&file);
    free(bad);
    free(path);
    return base;
}

static inline void fixture_open(const char *which) {
    fixture.program = program_at(which);
    fixture.data = make_data(0);
    fixture.manifest = path_join(fixture.data, "manifest.jsonl");
}

#endif
