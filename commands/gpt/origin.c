#include "commands/gpt/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/description.h"
#include "commands/next.h"
#include "data/gpt/prepare_outputs.h"

static const char own_codes[] = "codebook", indextts2_codes[] = GPT_INDEXTTS2_CODES;

FileSum gpt_file_sum(const char *path) {
    FileSum sum;
    OWNED char *bytes = NULL;
    size_t size;
    MUST_OR(read_file(path, &bytes, &size, &error), "%s: %s", path, error.text);
    snprintf(sum.text, sizeof sum.text, "%016llx", (unsigned long long)checksum(0, bytes, size));
    return sum;
}

bool gpt_codes_are_own(const char *kind) { return kind && !strcmp(kind, own_codes); }
bool gpt_codes_are_indextts2(const char *kind) { return kind && !strcmp(kind, indextts2_codes); }

bool gpt_folder_is_indextts2(const char *folder) {
    OWNED char *path = prepare_output_path(folder, OUTPUT_STATS);
    json_auto_t *stats = json_read(path, 0, NULL);
    return json_is_string(json_object_get(stats, "gpt_checkpoint"));
}

const char *gpt_codes_decoder(const char *kind) {
    if (gpt_codes_are_own(kind))
        return "codes of a codebook of train_gpt prepare: train_gpt decode makes sound of them, and IndexTTS2 cannot, "
               "because its vocoder decodes only the codes of its own semantic codec (train_gpt prepare --indextts2 "
               "computes those)";
    if (gpt_codes_are_indextts2(kind))
        return "IndexTTS2's semantic codes: its vocoder makes sound of them, and train_gpt decode cannot";
    return "unknown codes: the vocoder of IndexTTS2 decodes only those of its own semantic codec, train_gpt decode "
           "only those of a codebook of train_gpt prepare";
}

/* ---- folders of manifests ---- */

/* Returns the path of a prepared file beside a manifest; free(). */
static char *beside(const char *manifest, PrepareOutput output) {
    OWNED char *path = NULL, *label = NULL;
    file_split_label(manifest, &path, &label);
    OWNED char *folder = path_directory(path);
    return prepare_output_path(folder, output);
}

const char *const gpt_next_options[GPT_NEXT_OPTIONS + 1] = {
    [GPT_NEXT_CODES] = "number-mel-codes",
    [GPT_NEXT_WIDTH] = "model-dim",
    [GPT_NEXT_HEADS] = "heads",
    [GPT_NEXT_LAYERS] = "layers",
    [GPT_NEXT_LEARNING_RATE] = "learning-rate",
    [GPT_NEXT_EPOCHS] = "epochs",
    [GPT_NEXT_WARMUP] = "warmup-steps",
    [GPT_NEXT_VAL_INTERVAL] = "val-interval",
    [GPT_NEXT_LOG_INTERVAL] = "log-interval",
};

void gpt_prepared_adopt(const OptionList *manifests, OptionSet *set) {
    if (!manifests->count) return;
    OWNED char *path = beside(manifests->text[0], OUTPUT_STATS);
    json_auto_t *stats = json_read(path, 0, NULL); /* of another program, or none: it says nothing here */
    CheckpointOptions from = {.checkpoint = path,
                              .names = gpt_next_options,
                              .options = json_object_get(stats, GPT_PREPARED_OPTIONS),
                              .source = path};
    if (json_is_object(from.options)) checkpoint_options_adopt(&from, set, gpt_next_options);
}

SentencePiece *gpt_tokenizer_open(const char *path) {
    Error error;
    SentencePiece *tokenizer = sentencepiece_open(path, &error);
    if (!tokenizer) die("%s: %s", path, error.text);
    return tokenizer;
}

/* Dies unless the pieces of `theirs` are the first pieces of `ours`. */
static void check_pieces(const char *ours, const char *theirs) {
    SentencePiece *a = gpt_tokenizer_open(ours), *b = gpt_tokenizer_open(theirs);
    int n = sentencepiece_vocabulary(b), i = 0;
    while (i < n && i < sentencepiece_vocabulary(a) && !strcmp(sentencepiece_piece(a, i), sentencepiece_piece(b, i)))
        i++;
    if (i < n)
        die("%s made the text ids of its folder, and the tokenizer of this training is %s: piece %d is '%.40s' there "
            "and '%.40s' here; prepare all recordings with one tokenizer (train_gpt prepare --tokenizer), or remove "
            "the former if the ids are not of it",
            theirs, ours, i, sentencepiece_piece(b, i),
            i < sentencepiece_vocabulary(a) ? sentencepiece_piece(a, i) : "missing");
    sentencepiece_close(a);
    sentencepiece_close(b);
}

static void check_tokenizer(const GptOrigin *origin, const char *tokenizer, const char *manifest) {
    OWNED char *theirs = beside(manifest, OUTPUT_TOKENIZER);
    if (tokenizer && !access(theirs, F_OK) && strcmp(gpt_file_sum(theirs).text, origin->tokenizer.text) != 0)
        check_pieces(tokenizer, theirs);
}

/* Returns what codes of this codebook are called; free(). */
static char *codes_of(const char *codebook) {
    return codebook[0] ? xformat("codes of the codebook %s", codebook) : xstrdup("the semantic codes of IndexTTS2");
}

/* Dies unless the codebook beside a manifest is the one beside the first manifest. */
static void check_codebook(const GptOrigin *origin, const char *first, const char *manifest) {
    OWNED char *path = beside(manifest, OUTPUT_CODEBOOK);
    FileSum sum = {""};
    if (!access(path, F_OK)) sum = gpt_file_sum(path);
    if (strcmp(sum.text, origin->codebook.text) != 0)
        die("%s holds %s and %s holds %s, as codebook.npy beside them says (without one they are IndexTTS2's): the "
            "same code is another sound. Prepare all recordings with one codebook (train_gpt prepare --codebook) and "
            "keep codebook.npy beside every manifest, or prepare all with --indextts2",
            first, codes_of(origin->codebook.text), manifest, codes_of(sum.text));
}

static void add_fact(GptOrigin *origin, const char *name, const char *text) {
    if (text[0]) origin->facts[origin->n_facts++] = (Fact){.name = name, .text = text};
}

void gpt_origin_read(GptOrigin *origin, const char *tokenizer, const OptionList *train, const OptionList *validation) {
    const OptionList *lists[] = {train, validation};
    if (!train->count) return;
    OWNED char *codebook = beside(train->text[0], OUTPUT_CODEBOOK);
    *origin = (GptOrigin){0};
    if (tokenizer) origin->tokenizer = gpt_file_sum(tokenizer);
    if (!access(codebook, F_OK)) origin->codebook = gpt_file_sum(codebook);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->count; i++) {
            check_tokenizer(origin, tokenizer, lists[k]->text[i]);
            check_codebook(origin, train->text[0], lists[k]->text[i]);
        }
    origin->codes = origin->codebook.text[0] ? own_codes : indextts2_codes;
    add_fact(origin, GPT_TOKENIZER_FACT, origin->tokenizer.text);
    add_fact(origin, GPT_CODES_FACT, origin->codes);
    add_fact(origin, GPT_CODEBOOK_FACT, origin->codebook.text);
    printf("[Codes] %s%s: %s\n", origin->codebook.text[0] ? "" : "no ", codebook, gpt_codes_decoder(origin->codes));
}

/* ---- the base checkpoint ---- */

static const char *fact_of(const GptBase *base, const char *name) {
    const char *text = json_string_value(json_object_get(base->description, name));
    return text ? text : "";
}

void gpt_origin_print_next(const GptOrigin *origin, const char *run) {
    if (gpt_codes_are_own(origin->codes))
        next_print("speak --checkpoint %s --text TEXT --output said.wav", run);
    else if (origin->codes)
        next_print("export --checkpoint %s --output exported", run);
}

static void warn_of_codes(const GptOrigin *origin, const GptBase *base) {
    const char *path = base->size.checkpoint, *kind = fact_of(base, GPT_CODES_FACT), *codebook = "";
    OWNED char *ours = codes_of(origin->codebook.text);
    if (gpt_codes_are_own(kind)) codebook = fact_of(base, GPT_CODEBOOK_FACT);
    if (!kind[0] && base->ours) {
        warn("--base-checkpoint %s does not say which codes it was trained on (the config.json of a newer checkpoint "
             "does), and the manifests hold %s: if the base checkpoint knows other codes, its tables of audio codes "
             "mean nothing here, nor does what it knows of voices",
             path, ours);
    } else if (strcmp(origin->codebook.text, codebook) != 0) {
        OWNED char *theirs = codes_of(codebook);
        warn("--base-checkpoint %s was trained on %s, and the manifests hold %s: the same code is another sound there, "
             "so its tables of audio codes mean nothing here, nor does what it knows of voices%s%s",
             path, theirs, ours,
             codebook[0] ? ""
                         : ". IndexTTS2 cannot make sound of what this training learns; for a model that IndexTTS2 "
                           "speaks with, prepare the recordings with --indextts2",
             kind[0] ? "" : ". (It has no config.json of train_gpt, so it is taken as IndexTTS2's.)");
    }
}

void gpt_origin_warn_of_base(const GptOrigin *origin, const GptBase *base) {
    const char *path = base->size.checkpoint, *tokenizer = fact_of(base, GPT_TOKENIZER_FACT);
    if (!path) return;
    if (origin->codes) warn_of_codes(origin, base);
    if (tokenizer[0] && origin->tokenizer.text[0] && strcmp(tokenizer, origin->tokenizer.text) != 0)
        warn("--base-checkpoint %s was trained with another tokenizer: xxh3_64 %s, now %s. The rows of its text tables "
             "are taken by their number, which is right only if the first pieces of both are the same",
             path, tokenizer, origin->tokenizer.text);
}
