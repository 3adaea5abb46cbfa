#include "tests/psd/train_rig.h"

int psd_program(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run_program(fixture.output, sizeof fixture.output, "train_psd", format, arguments);
    va_end(arguments);
    return status;
}

int psd_program_and_signal(const char *directory, const char *run, int step, const char *options) {
    char *command = kept_format("exec %s %s >%s/output 2>&1", program_at("train_psd"), options, directory);
    pid_t child = fork();
    int status;
    if (!child) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    wait_for_step(run, child, step);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- data ---- */

void psd_write_store(const char *path, const PsdStore *s, const char *sensors) {
    int32_t *files = xcalloc((size_t)s->n, sizeof *files);
    float *snr = xcalloc((size_t)s->n, sizeof *snr);
    for (int64_t i = 0; i < s->n; i++) snr[i] = (float)(i % 30);
    TensorToWrite tensors[8] = {{"psd", "F32", 2, {s->n, PSD_BINS}, s->psd}, {"label", "I32", 1, {s->n}, s->labels},
                                {"sensor", "I32", 1, {s->n}, s->sensors},    {"file", "I32", 1, {s->n}, files},
                                {"row", "I32", 1, {s->n}, s->rows},          {"snr", "F32", 1, {s->n}, snr}};
    if (s->positive) tensors[6] = (TensorToWrite){"positive", "I32", 1, {s->n}, s->positive};
    if (s->positive) tensors[7] = (TensorToWrite){"visible", "I32", 2, {s->n, s->n_visible}, s->visible};
    const char *const keys[] = {"sensors"}, *const values[] = {sensors};
    Error error;
    if (!safetensors_write(path, tensors, s->positive ? 8 : 6, keys, values, 1, &error)) fail_msg("%s", error.text);
    free(files);
    free(snr);
}

static void write_toy(const char *path, int32_t first_label) {
    PsdStore s = {.n = TOY_SAMPLES, .psd = xmalloc(TOY_SAMPLES * PSD_BINS * sizeof(float))};
    s.labels = xcalloc(TOY_SAMPLES, sizeof(int32_t));
    s.sensors = xcalloc(TOY_SAMPLES, sizeof(int32_t));
    s.rows = xcalloc(TOY_SAMPLES, sizeof(int32_t));
    for (int i = 0; i < TOY_SAMPLES; i++) {
        s.labels[i] = i / TOY_ROWS % PSD_CLASSES;
        s.sensors[i] = i / TOY_ROWS / PSD_CLASSES;
        s.rows[i] = i;
        double width = 8 + 14 * s.labels[i];
        for (int k = 0; k < PSD_BINS; k++) {
            float noise = philox_normal((uint64_t)i, PURPOSE_TEST, 0, (uint64_t)k);
            s.psd[i * PSD_BINS + k] =
                (float)(2 * exp(-pow((k - 100) / width, 2)) + 0.3 * sin(0.05 * k * (1 + s.sensors[i]))) + 0.6f * noise;
        }
    }
    s.labels[0] = first_label;
    psd_write_store(path, &s, "[\"s00\", \"s01\", \"s02\"]");
    free(s.psd);
    free(s.labels);
    free(s.sensors);
    free(s.rows);
}

/* Prints "name": [...] with the rows [from, to) of TOY_ROWS of every class, for every sensor but `without`. */
static void print_split(FILE *file, const char *name, int only, int without, int from, int to) {
    fprintf(file, "\"%s\": [", name);
    for (int i = 0, n = 0; i < TOY_SAMPLES; i++) {
        int sensor = i / TOY_ROWS / PSD_CLASSES, row = i % TOY_ROWS;
        if (sensor == without || (only >= 0 && sensor != only) || row < from || row >= to) continue;
        fprintf(file, "%s%d", n++ ? ", " : "", i);
    }
    fprintf(file, "]");
}

static FILE *open_data(const char *name) {
    FILE *file = fopen(kept_path(fixture.data, name), "w");
    assert_non_null(file);
    return file;
}

/* pooled.json: 180 rows to train on, 54, 54. loso.json: 156, 36 and the sensor's 96. few.json: K of each class. */
static void write_splits(void) {
    FILE *pooled = open_data("pooled.json"), *loso = open_data("loso.json"), *few = open_data("few.json");
    static const struct {
        const char *name;
        int from, to;
    } splits[] = {{"{\"train", 0, 10}, {"val", 10, 13}, {"test", 13, TOY_ROWS}};
    fprintf(pooled, "{");
    for (int p = 0; p < 3; p++) {
        print_split(pooled, splits[p].name + (p == 0 ? 2 : 0), -1, -1, splits[p].from, splits[p].to);
        fprintf(pooled, p < 2 ? ", " : "}");
    }
    for (int s = 0; s < TOY_SENSORS; s++) {
        fprintf(loso, "%s\"s%02d\": {", s ? ", " : "{", s);
        print_split(loso, "train", -1, s, 0, 13);
        fprintf(loso, ", ");
        print_split(loso, "val", -1, s, 13, TOY_ROWS);
        fprintf(loso, ", ");
        print_split(loso, "test", s, -1, 0, TOY_ROWS);
        fprintf(loso, "}");
        fprintf(few, "%s\"s%02d\": {", s ? ", " : "{", s);
        for (int k = 0; k < 4; k++) {
            static const int shots[] = {5, 10, 50, 100};
            fprintf(few, "%s\"%d\": {", k ? ", " : "", shots[k]);
            print_split(few, "finetune", s, -1, 0, shots[k]);
            fprintf(few, ", ");
            print_split(few, "test", s, -1, shots[k], TOY_ROWS);
            fprintf(few, "}");
        }
        fprintf(few, "}");
    }
    fprintf(loso, "}");
    fprintf(few, "}");
    assert_int_equal(fclose(pooled) | fclose(loso) | fclose(few), 0);
}

int psd_make_toy(void **state) {
    (void)state;
    fixture.data = scratch_directory();
    char *toy = kept_path(fixture.data, "toy.safetensors"),
         *with_unknown = kept_path(fixture.data, "unknown.safetensors");
    write_toy(toy, 0);
    write_toy(with_unknown, 6);
    write_splits();
    return 0;
}

const char *psd_toy_options(const char *command) {
    static char text[8][512];
    static int at;
    char *out = text[at++ % 8];
    snprintf(out, sizeof text[0], "%s -m %s/toy.safetensors --split %s/pooled.json --threads 1", command, fixture.data,
             fixture.data);
    return out;
}

/* ---- predictions ---- */

static int class_of(const char *name) {
    static const char *const names[] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra"};
    for (int c = 0; c < PSD_CLASSES; c++)
        if (!strcmp(name, names[c])) return c;
    fail_msg("%s is no class", name);
    return -1;
}

int psd_read_predictions(const char *directory, PsdPredicted *said, int most) {
    char *path = kept_path(directory, "predictions_finetuned.csv"), *text = kept_text(path);
    int n = 0;
    assert_int_equal(strncmp(text, "id,sensor,snr,truth,prediction,p_dab,", 37), 0);
    for (char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1, n++) {
        char truth[16], predicted[16];
        assert_true(n < most);
        PsdPredicted *s = &said[n];
        assert_int_equal(sscanf(line, "%d,%*[^,],%*[^,],%15[^,],%15[^,],%lf,%lf,%lf,%lf,%lf,%lf", &s->id, truth,
                                predicted, &s->p[0], &s->p[1], &s->p[2], &s->p[3], &s->p[4], &s->p[5]),
                         9);
        s->truth = class_of(truth);
        s->predicted = class_of(predicted);
    }
    return n;
}
