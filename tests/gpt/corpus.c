#include "tests/gpt/corpus.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "data/audio/mel.h"
#include "data/formats/npy.h"
#include "kernels/philox.h"
#include "tests/sounds.h"

const char *const corpus_ids[CORPUS_KEPT] = {"spk001_000001", "spk002_000002", "spk003_000003", "spk001_000004",
                                             "spk002_000005", "spk003_000006", "spk001_000007", "spk002_000008",
                                             "spk003_000009", "spk001_000010", "spk002_000011", "spk003_000012",
                                             "spk001_000013", "spk002_000014", "spk003_000015", "spk004_000016"};
double corpus_seconds(int i) { return i == CORPUS_KEPT - 1 ? 3 : 1 + 0.12 * i; }

char *corpus_root;
const char *corpus_options;

char *corpus_folder(const char *name) { return kept_path(corpus_root, name); }

char *corpus_path(const char *output, const char *name) { return kept_format("%s/%s/%s", corpus_root, output, name); }

static void add_recording(FILE *list, int number, const char *id, double seconds, const char *text) {
    static const struct {
        int format, rate, channels;
        const char *name;
    } kinds[] = {{SF_FORMAT_WAV | SF_FORMAT_PCM_16, 24000, 1, "wav"},
                 {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 1, "flac"},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 22050, 1, "ogg"},
                 {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 48000, 2, "wav"}};
    int kind = number % 4, rate = kinds[kind].rate, channels = kinds[kind].channels;
    int64_t n = llround(seconds * rate);
    float *voice = make_babble((uint64_t)number, rate, n), *samples = xmalloc((size_t)(n * channels) * sizeof *samples);
    for (int64_t i = 0; i < n * channels; i++) samples[i] = voice[i / channels];
    char *name = kept_format("audio/%s.%s", id, kinds[kind].name), *path = kept_path(corpus_root, name);
    write_sound(path, kinds[kind].format, rate, channels, samples, n);
    fprintf(list, "%s\t%.6s\t%s\t%s\n", id, id, name, text);
    free(voice);
    free(samples);
}

/* Two words a second, eight to ten characters. */
static char *make_words(int number, double seconds) {
    static const char *const words[] = {"ሰላም", "ለዓለም",  "ዛሬ", "ጥሩ", "ቀን",   "ነው",
                                        "ልጆች", "ትምህርት", "ቤት", "ውሃ", "ይሄዳሉ", "ጠጡ"};
    char *text = xstrdup("");
    for (int i = 0; i < 1 + (int)(2 * seconds); i++) {
        uint32_t which = philox_bits(7, PURPOSE_TEST, (uint32_t)number, (uint64_t)i) % 12;
        char *longer = xformat("%s%s%s", text, *text ? " " : "", words[which]);
        free(text);
        text = longer;
    }
    char *sentence = kept_format("%s።", text);
    free(text);
    return sentence;
}

int corpus_open(void **state) {
    (void)state;
    corpus_root = scratch_directory();
    corpus_options = xformat("--vocabulary 60 --codebook-size %d --kmeans-iterations 10 --d-model %d --val-ratio 0.3 "
                             "--max-duration 3 --min-words 2",
                             CORPUS_ENTRIES, CORPUS_WIDTH);
    char *audio = kept_path(corpus_root, "audio"), *path = kept_path(corpus_root, "list.tsv");
    make_directories(audio);
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    for (int i = 0; i < CORPUS_KEPT; i++) {
        char *text = make_words(i, corpus_seconds(i));
        add_recording(list, i, corpus_ids[i], corpus_seconds(i), text);
    }
    add_recording(list, 16, "short", 0.96, "ዛሬ ጥሩ");
    add_recording(list, 17, "long", 3.04, "ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው");
    add_recording(list, 18, "slow", 2, "ቀን ነው");
    add_recording(list, 19, "fast", 1.5, "ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ");
    add_recording(list, 20, "word", 1, "ትምህርት");
    add_recording(list, 21, "empty", 1, " \u3000 ");
    assert_int_equal(fclose(list), 0);
    return 0;
}

int corpus_try_prepare(const char *output, const char *list, const char *more) {
    return run_command(fixture.output, sizeof fixture.output, "%s -i %s/%s -o %s/%s %s %s",
                       program_at("train_gpt prepare"), corpus_root, list, corpus_root, output, corpus_options, more);
}

void corpus_prepare(const char *output, const char *more) {
    int status = corpus_try_prepare(output, "list.tsv", more);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

void corpus_assert_same(const char *a, const char *b) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && diff -r -q -x .prepare_ledger.jsonl %s %s", corpus_root, a, b);
    if (status) fail_msg("%s", fixture.output);
}

const char *corpus_reference(const char **told) {
    static char *first;
    if (!first) {
        corpus_prepare("reference", "--num-workers 1");
        first = xstrdup(fixture.output);
    }
    if (told) *told = first;
    return "reference";
}

int corpus_train(const char *data, const char *run, const char *more) {
    return run_command(fixture.output, sizeof fixture.output,
                       "%s -m %s/train_manifest.jsonl --val-manifest %s/val_manifest.jsonl --model-dim %d --layers 1 "
                       "--heads 2 --number-mel-codes %d --max-text-tokens 90 --max-mel-tokens 180 --epochs 100 "
                       "--warmup-steps 1 --threads 1 -b 3 -g 1 --max-steps 3 --val-interval 2 --save-interval 2 "
                       "--output-dir %s %s",
                       program_at("train_gpt"), data, data, CORPUS_WIDTH, CORPUS_ENTRIES + 2, run, more);
}

void corpus_must_train(const char *data, const char *run, const char *more) {
    int status = corpus_train(data, run, more);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

json_t *corpus_read_json(const char *output, const char *name) {
    char *path = corpus_path(output, name), *text = kept_text(path);
    json_t *json = json_loads(text, 0, NULL);
    if (!json) fail_msg("%s is no JSON", path);
    return json;
}

json_t *corpus_read_lines(const char *output, const char *name) {
    char *path = corpus_path(output, name), *text = kept_text(path), *rest;
    json_t *lines = json_array();
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *object = json_loads(line, 0, NULL);
        if (!object) fail_msg("%s: no JSON: %s", path, line);
        json_array_append_new(lines, object);
    }
    return lines;
}

const char *corpus_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("%s is missing", key);
    return text;
}

int64_t corpus_number(const json_t *object, const char *key) {
    if (!json_is_integer(json_object_get(object, key))) fail_msg("%s is missing", key);
    return json_integer_value(json_object_get(object, key));
}

void *corpus_read_array(const char *output, const char *folder, const char *id, char kind, int64_t *dims) {
    char *path = kept_format("%s/%s/%s/%s.npy", corpus_root, output, folder, id), *bytes;
    size_t size;
    Npy npy;
    Error error;
    if (!read_file(path, &bytes, &size, &error) || !npy_parse(bytes, size, &npy, &error))
        fail_msg("%s: %s", path, error.text);
    void *data = xmalloc((size_t)npy.count * 4);
    assert_int_equal(npy.kind, kind);
    assert_true(kind == 'f' ? npy_to_f32(&npy, data, &error) : npy_to_i32(&npy, data, &error));
    dims[0] = npy.dims[0];
    dims[1] = npy.rank > 1 ? npy.dims[1] : 0;
    free(bytes);
    return data;
}

const json_t *corpus_line(const json_t *lines, const char *id) {
    for (size_t i = 0; i < json_array_size(lines); i++)
        if (!strcmp(corpus_text(json_array_get(lines, i), "id"), id)) return json_array_get(lines, i);
    fail_msg("%s has no line", id);
    return NULL;
}

GptDatasetReport corpus_open_manifest(const char *output, const char *name, Split split, bool repair) {
    json_t *stats = corpus_read_json(output, "stats.json");
    GptDatasetOptions o = {.unknown_id = 2,
                           .layout = {.d_model = CORPUS_WIDTH,
                                      .n_conditioning = 32,
                                      .max_text = 600,
                                      .max_codes = 1816,
                                      .text_vocabulary = (int)corpus_number(stats, "vocabulary"),
                                      .audio_vocabulary = CORPUS_ENTRIES,
                                      .stop_text = 1,
                                      .start_mel = CORPUS_ENTRIES,
                                      .stop_mel = CORPUS_ENTRIES + 1},
                           .split = split,
                           .val_ratio = 0.3,
                           .n_threads = 2,
                           .repair_codes = repair};
    char *path = corpus_path(output, name);
    GptDatasetReport report;
    Dataset *dataset = gpt_dataset_open((const char *const[]){path}, 1, &o, &report);
    assert_int_equal(dataset->n_samples, report.samples);
    dataset->close(dataset);
    json_decref(stats);
    return report;
}

double frames_square_distance(const float *a, const float *b) {
    double sum = 0;
    for (int j = 0; j < MEL_BANDS; j++) sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sum;
}

int64_t corpus_ledger_lines(const char *output) {
    char *path = corpus_path(output, ".prepare_ledger.jsonl"), *bytes;
    size_t size;
    int64_t n = -1;
    if (read_file(path, &bytes, &size, NULL)) {
        n = 0;
        for (size_t i = 0; i < size; i++) n += bytes[i] == '\n';
        free(bytes);
    }
    return n;
}

int corpus_end_at(const char *command, const char *output, int64_t lines, int signal) {
    int status;
    bool ended = false;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (corpus_ledger_lines(output) < lines && !(ended = waitpid(child, &status, WNOHANG) == child)) usleep(200);
    if (!ended) {
        kill(child, signal);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    return status;
}
