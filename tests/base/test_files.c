/* Every reader and writer of a file whose name a user gives, except those of one model. A reader refuses files that are
 * not regular, names their kind, and never waits for the other end of a FIFO. A writer replaces regular files only.
 * When the disk is full, it leaves the old file whole and no other file. */
#include "base/json.h"
#include "base/text_file.h"
#include "cost/rates.h"
#include "data/audio/audio.h"
#include "data/formats/npy.h"
#include "data/formats/safetensors.h"
#include "data/formats/tensor_file_open.h"
#include "data/formats/text_source.h"
#include "data/formats/torch_pth.h"
#include "data/ledger.h"
#include "data/text/sentencepiece.h"
#include "page/log.h"
#include "report/plot.h"
#include "report/table.h"
#include "tests/file_rig.h"

static bool read_audio(const char *path, Error *error) {
    Audio audio;
    return audio_read(path, 24000, 1, &audio, error);
}

static bool read_tensors(const char *path, Error *error) {
    TensorFile file;
    return tensor_file_open(path, &file, error);
}

static bool read_zip(const char *path, Error *error) {
    TensorFile file;
    return torch_pth_open(path, &file, error);
}

static bool read_tokenizer(const char *path, Error *error) { return sentencepiece_open(path, error) != NULL; }

static bool read_whole_text(const char *path, Error *error) {
    char *text;
    size_t size;
    return text_read(path, &text, &size, error);
}

static bool read_json(const char *path, Error *error) { return json_read(path, 0, error) != NULL; }

static bool read_rates(const char *path, Error *error) {
    Rates rates;
    return rates_read(path, "here", &rates, error);
}

/* log_read gives no reason: an unreadable log has no records. */
static bool read_log(const char *path, Error *error) {
    json_t *records = log_read(path);
    bool some = json_array_size(records) > 0;
    json_decref(records);
    error_set(error, "not a regular file");
    return some;
}

static const float numbers[4] = {1, 2, 3, 4};

static bool write_audio(const char *path, Error *error) { return audio_write(path, numbers, 4, 24000, error); }

static bool write_array(const char *path, Error *error) {
    return npy_write(path, "<f4", numbers, 1, (const int64_t[]){4}, error);
}

static bool write_tensors(const char *path, Error *error) {
    const TensorToWrite tensor = {"x", "F32", 1, {4}, numbers};
    return safetensors_write(path, &tensor, 1, NULL, NULL, 0, error);
}

static bool write_torch(const char *path, Error *error) {
    PthWriter *w = pth_begin();
    pth_tensor(w, (TensorToWrite){.dtype = "F32", .rank = 1, .dims = {4}, .data = numbers});
    return pth_write(w, path, error);
}

static bool write_tokenizer(const char *path, Error *error) {
    return sentencepiece_train_bpe("a b\n", 4, path, 8, error) > 0;
}

static bool write_rates(const char *path, Error *error) {
    Rates rates = {.device = "x", .date = "2026-01-02", .launch = 1, .bytes = {1, 1, {1}, {1}}};
    rates.flops[WORK_PRODUCT][NUMBERS_F32][0] = (RateCurve){1, 1, {1}, {1}};
    return rates_write(path, &rates, error);
}

static bool write_text_file(const char *path, Error *error) {
    TextFile file;
    text_file_begin(&file);
    fputs("a text of some length", file.out);
    return text_file_end(&file, path, error);
}

static bool write_plot(const char *path, Error *error) {
    const double x[2] = {1, 2}, y[2] = {3, 4};
    const PlotSeries series = {.name = "loss", .x = x, .y = y, .n = 2};
    return plot_write(path, &(Plot){.x_label = "x", .y_label = "y", .series = &series, .n_series = 1}, 1, "title",
                      error);
}

static bool write_table(const char *path, Error *error) {
    Table table = {0};
    table_text(&table, "a column", "a value");
    bool ok = table_write_csv(&table, path, error);
    table_free(&table);
    return ok;
}

static bool write_json(const char *path, Error *error) {
    return json_write(json_build("x", "{s:s}", "a key", "a value"), path, error);
}

static bool write_ledger(const char *path, Error *error) {
    Ledger *ledger = ledger_open(path, error);
    bool ok = ledger && ledger_add(ledger, "kind", "name", json_build("x", "{s:i}", "n", 1), error);
    ledger_close(ledger);
    return ok;
}

int main(void) {
    static const FileReaderCase readers[] = {
        {"audio", read_audio}, {"tensors", read_tensors}, {"zip", read_zip}, {"tokenizer", read_tokenizer},
        {"json", read_json},   {"rates", read_rates},     {"log", read_log}, {"text", read_whole_text}};
    static const FileWriterCase writers[] = {
        {"audio", write_audio, false, false},         {"array", write_array, false, false},
        {"tensors", write_tensors, false, false},     {"torch", write_torch, false, false},
        {"tokenizer", write_tokenizer, false, false}, {"rates", write_rates, false, true},
        {"text", write_text_file, false, false},      {"plot", write_plot, false, false},
        {"table", write_table, false, false},         {"json", write_json, false, false},
        {"ledger", write_ledger, true, true}};
    return FILE_TESTS_RUN(readers, writers);
}
