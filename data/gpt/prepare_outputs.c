#include "data/gpt/prepare_outputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/gpt/speech_coder.h"

const char *prepare_output_name(PrepareOutput output) {
    static const char *const names[OUTPUTS] = {[OUTPUT_MEL] = "mel",
                                               [OUTPUT_TEXT_IDS] = "text_ids",
                                               [OUTPUT_CODES] = "codes",
                                               [OUTPUT_CONDITION] = "condition",
                                               [OUTPUT_EMO_VEC] = "emo_vec",
                                               [OUTPUT_TOKENIZER] = "bpe.model",
                                               [OUTPUT_CODEBOOK] = "codebook.npy",
                                               [OUTPUT_CODEBOOK_FACTS] = "codebook.json",
                                               [OUTPUT_MANIFEST] = "manifest.jsonl",
                                               [OUTPUT_TRAIN_MANIFEST] = "train_manifest.jsonl",
                                               [OUTPUT_VAL_MANIFEST] = "val_manifest.jsonl",
                                               [OUTPUT_TRAIN_PAIRS] = "train_pairs.jsonl",
                                               [OUTPUT_VAL_PAIRS] = "val_pairs.jsonl",
                                               [OUTPUT_STATS] = "stats.json",
                                               [OUTPUT_COMPARISON] = "comparison.tsv"};
    return names[output];
}

char *prepare_output_path(const char *directory, PrepareOutput output) {
    return path_join(directory, prepare_output_name(output));
}

static bool is_folder(PrepareOutput output) { return output < OUTPUT_TOKENIZER; }

/* Makes a folder; removes the partial files of a killed run from it. */
static void make_folder(const char *path) {
    make_directories(path);
    directory_remove_leftovers(path);
}

Ledger *prepare_outputs_open(const char *directory) {
    OWNED char *path = path_join(directory, ".prepare_ledger.jsonl");
    Ledger *ledger;
    make_folder(directory);
    MUST(ledger = ledger_open(path, &error));
    return ledger;
}

static bool is_given(const PrepareGiven *given, const char *path) {
    OWNED char *facts = given->codebook ? speech_coder_facts_path(given->codebook) : NULL;
    return (given->tokenizer && file_is_same(path, given->tokenizer)) ||
           (given->codebook && (file_is_same(path, given->codebook) || file_is_same(path, facts)));
}

/* Returns whether there is nothing, or an empty folder. */
static bool is_absent_or_empty(const char *path) {
    DIR *directory = opendir(path);
    int names = 0;
    if (!directory) return access(path, F_OK) != 0;
    while (readdir(directory)) names++;
    closedir(directory);
    return names <= 2; /* . and .. */
}

static _Noreturn void die_not_ours(const char *directory, const char *path, PrepareOutput output) {
    const char *advice = output == OUTPUT_TOKENIZER ? "; to use it, give it as --tokenizer"
                         : output == OUTPUT_CODEBOOK || output == OUTPUT_CODEBOOK_FACTS
                             ? "; to use it, give codebook.npy as --codebook"
                             : "";
    die("%s would be replaced, and %s/.prepare_ledger.jsonl does not say that train_gpt prepare has made it: move it "
        "away, or choose another --output%s",
        path, directory, advice);
}

/* In the ledger's list of outputs: codes come from networks of others. */
static const char foreign_codes[] = "foreign codes";

/* Dies if codes of both kinds would come together. */
static void check_kind(const char *directory, bool foreign, const json_t *before) {
    OWNED char *codebook = prepare_output_path(directory, OUTPUT_CODEBOOK);
    if (foreign && !access(codebook, F_OK))
        die("%s: codes of a codebook are there, and --indextts2 makes others: choose another --output", codebook);
    if (!foreign && json_object_get(before, foreign_codes))
        die("%s: a run with --indextts2 has written there, and without it the codes are others: give --indextts2, or "
            "choose another --output",
            directory);
}

void prepare_outputs_claim(const char *directory, const PrepareGiven *given, Ledger *ledger) {
    const json_t *before = ledger_find(ledger, "outputs", "");
    bool all = !before && !ledger_is_empty(ledger); /* a ledger without this entry: all outputs are from its runs */
    json_auto_t *ours = json_object();
    check_kind(directory, given->foreign_codes, before);
    if (given->foreign_codes) json_object_set_new(ours, foreign_codes, json_true());
    for (PrepareOutput output = 0; output < OUTPUTS; output++) {
        const char *name = prepare_output_name(output);
        OWNED char *path = path_join(directory, name);
        bool keep = is_given(given, path), known = json_object_get(before, name) != NULL;
        bool is_free = is_absent_or_empty(path);
        if (!keep && !is_folder(output)) MUST(file_is_replaceable(path, &error));
        if (!keep && !is_free && !all && !known) die_not_ours(directory, path, output);
        if (!keep || known) json_object_set_new(ours, name, json_true());
    }
    if (!json_equal(before, ours)) MUST(ledger_add(ledger, "outputs", "", json_incref(ours), &error));
    for (PrepareOutput output = 0; is_folder(output); output++) {
        OWNED char *path = prepare_output_path(directory, output);
        make_folder(path);
    }
}

void prepare_outputs_remove_manifests(const char *directory) {
    for (PrepareOutput output = OUTPUT_MANIFEST; output < OUTPUTS; output++) {
        OWNED char *path = prepare_output_path(directory, output);
        if (unlink(path) && errno != ENOENT) die("cannot remove %s: %s", path, strerror(errno));
    }
}
