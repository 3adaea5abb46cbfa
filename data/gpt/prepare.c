#include "data/gpt/prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_name.h"
#include "base/program.h"
#include "data/gpt/prepare_outputs.h"
#include "data/gpt/sounds_report.h"
#include "data/text/normalize.h"
#include "data/text/unknown.h"
#include "kernels/philox.h"

enum { MAX_TEXT_TOKENS = 600 };

/* ---- progress: a line on a terminal, updated twice a second ---- */

typedef struct {
    const char *what;
    int64_t total, done;
    double start, shown;
} Progress;

static void progress_step(Progress *p) {
#pragma omp critical(progress)
    {
        double now = seconds_now();
        bool last = ++p->done == p->total;
        if (last) {
            terminal_progress_end();
        } else if (now - p->shown > 0.5) {
            double rate = (double)p->done / fmax(now - p->start, 1e-3);
            terminal_progress("%s %lld of %lld clips, %.0f clips/s, ETA %.0f s", p->what, (long long)p->done,
                              (long long)p->total, rate, (double)(p->total - p->done) / rate);
            p->shown = now;
        }
    }
}

/* Ends the program, from any thread; other threads that fail wait meanwhile. */
static void fail(const Error *error) {
#pragma omp critical(fatal)
    die("%s", error->text);
}

/* ---- begin and end ---- */

void prepare_open(Prepare *p, const PrepareOptions *options) { *p = (Prepare){.options = options, .mel = mel_open()}; }

void prepare_outputs(Prepare *p) {
    const PrepareOptions *options = p->options;
    const PrepareGiven given = {options->tokenizer, options->codebook, options->foreign_codes > 0};
    p->work = (ClipWork){options->output, prepare_outputs_open(options->output), p->mel, options->foreign_codes > 0};
    prepare_outputs_claim(options->output, &given, p->work.ledger);
    p->tokenizer_path = prepare_output_path(options->output, OUTPUT_TOKENIZER);
    p->codebook_path = prepare_output_path(options->output, OUTPUT_CODEBOOK);
}

void prepare_close(Prepare *p) {
    for (int64_t i = 0; i < p->n; i++) clip_close(&p->clips[i]);
    free(p->clips);
    recordings_close(&p->recordings);
    ledger_close(p->work.ledger);
    mel_close(p->mel);
    sentencepiece_close(p->tokenizer);
    speech_coder_close(&p->coder);
    free(p->tokenizer_path);
    free(p->codebook_path);
}

/* ---- the list ---- */

static int64_t word_count(const char *text) {
    int64_t words = 0;
    for (const char *at = text; *(at += strspn(at, " ")); at += strcspn(at, " ")) words++;
    return words;
}

static int64_t character_count(const char *text) {
    int64_t n = 0;
    for (; *text; text++) n += (*text & 0xC0) != 0x80;
    return n;
}

/* Ends the program because of a text. */
static _Noreturn void die_of_text(const Prepare *p, const Clip *clip, const char *reason) {
    die("%s: %s", recording_place(&p->recordings, clip->recording), reason);
}

/* Dies if the file system refuses the name of a clip's files. Tries the first id with each risky character. */
static void check_ids(const Prepare *p) {
    for (const char *risk = file_name_risks; *risk; risk++)
        for (int64_t i = 0; i < p->recordings.count; i++) {
            const char *id = p->recordings.items[i].id;
            if (!strchr(id, *risk)) continue;
            if (file_name_is_refused(p->options->output, id))
                die("the id %s: files are named after it, and the file system of %s refuses this name; give ids "
                    "without %s, or an --output on another disk",
                    id, p->options->output, file_name_risks);
            break;
        }
}

void prepare_list(Prepare *p) {
    Error error;
    if (!recordings_read(&p->options->input, &p->recordings, &error)) die("%s", error.text);
    check_ids(p);
    p->n = p->recordings.count;
    p->clips = xcalloc((size_t)p->n, sizeof *p->clips);
    for (int64_t i = 0; i < p->n; i++) {
        const Recording *r = &p->recordings.items[i];
        Clip *clip = &p->clips[i];
        clip->recording = r;
        clip->audio_path = path_join(p->recordings.directory, r->audio);
        clip->text = text_clean(r->text, &error);
        clip->normalized = clip->text ? text_normalize_amharic(clip->text, &error) : NULL;
        if (!clip->normalized) die_of_text(p, clip, error.text);
        int64_t words = word_count(clip->normalized);
        clip->reject = !words ? CLIP_EMPTY_TEXT : words < p->options->min_words ? CLIP_FEW_WORDS : CLIP_KEPT;
        p->without_text += !words;
        p->without_audio += access(clip->audio_path, F_OK) != 0;
    }
}

/* ---- frames ---- */

static ClipReject filter_clip(const PrepareOptions *o, Clip *clip) {
    double seconds = (double)clip->samples / MEL_RATE;
    double rate = (double)character_count(clip->normalized) / seconds;
    if (clip->clipped > o->max_clipping) {
        error_set(&clip->error, "is clipped: %.1f %% of its samples are beyond 0.99 of full scale (--max-clipping %g)",
                  100 * clip->clipped, o->max_clipping);
        return CLIP_BAD_AUDIO;
    }
    if (seconds < o->min_duration) return CLIP_SHORT;
    if (seconds > o->max_duration) return CLIP_LONG; /* at most 36.32 s, the 1816 codes that a model takes */
    if (clip->silence > o->max_silence) return CLIP_SILENT;
    if (rate < o->min_chars) return CLIP_SLOW;
    return rate > o->max_chars ? CLIP_FAST : CLIP_KEPT;
}

static void check_some_left(const Prepare *p) {
    int64_t counts[CLIP_REASONS] = {0};
    int most = CLIP_KEPT + 1;
    for (int64_t i = 0; i < p->n; i++) counts[p->clips[i].reject]++;
    for (int reason = CLIP_KEPT + 1; reason < CLIP_REASONS; reason++)
        if (counts[reason] > counts[most]) most = reason;
    if (!counts[CLIP_KEPT])
        die("no recording is left: %lld of %lld are %s", (long long)counts[most], (long long)p->n,
            clip_reject_reason((ClipReject)most));
}

static int by_audio(const void *a, const void *b) {
    return strcmp((*(Clip *const *)a)->audio_path, (*(Clip *const *)b)->audio_path);
}

/* Sets audio_sum of the kept clips, and reads each file once, as several clips may be parts of one recording. A file
 * that cannot be read has no sum; whoever measures it says why. */
static void sum_audio(const Prepare *p) {
    OWNED Clip **clips = xmalloc((size_t)(p->n + 1) * sizeof *clips);
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].reject == CLIP_KEPT) clips[n++] = &p->clips[i];
    if (n) qsort(clips, (size_t)n, sizeof(Clip *), by_audio);
    Progress progress = {.what = "[Audio] looking for changes:", .total = n, .start = seconds_now()};
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers)
    for (int64_t i = 0; i < n; i++) {
        if ((!i || by_audio(&clips[i - 1], &clips[i])) &&
            !file_checksum(clips[i]->audio_path, &clips[i]->audio_sum, NULL))
            clips[i]->audio_sum = 0;
        progress_step(&progress);
    }
    for (int64_t i = 1; i < n; i++)
        if (!by_audio(&clips[i - 1], &clips[i])) clips[i]->audio_sum = clips[i - 1]->audio_sum;
}

void prepare_frames(Prepare *p) {
    sum_audio(p);
    Progress progress = {.what = "[Audio]", .total = p->n, .start = seconds_now()};
    int64_t now = 0, reused = 0;
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers) reduction(+ : now, reused)
    for (int64_t i = 0; i < p->n; i++) {
        Clip *clip = &p->clips[i];
        if (clip->reject == CLIP_KEPT) {
            bool read = clip_measure(&p->work, clip);
            now += read && clip->reject == CLIP_KEPT;
            reused += !read && clip->reject == CLIP_KEPT;
            if (clip->reject == CLIP_KEPT) clip->reject = filter_clip(p->options, clip);
        }
        progress_step(&progress);
    }
    p->read_now = now;
    p->read_reused = reused;
    int64_t bad = sounds_report_bad(&p->recordings, p->clips, p->n);
    if (bad && !p->options->skip_bad)
        die("the audio of %lld of %lld recordings is bad; repair or remove them, or skip them with --skip-bad",
            (long long)bad, (long long)p->n);
    sounds_report_doubtful(&p->recordings, p->clips, p->n);
    check_some_left(p);
    sounds_report(&p->recordings, p->clips, p->n);
    p->sizes = p->options->sizes;
    p->small = prepare_fit_sizes(p->clips, p->n, &p->options->fit, &p->sizes);
}

/* ---- the tokenizer ---- */

/* Returns whether the ledger says that files with this fingerprint were made from `key`. */
static bool is_made(const Prepare *p, const char *kind, Fingerprint key, Fingerprint files) {
    const json_t *facts = ledger_find(p->work.ledger, kind, "");
    return fact_is(facts, "key", key.text) && fact_is(facts, "files", files.text);
}

static void note_made(const Prepare *p, const char *kind, Fingerprint key, Fingerprint files) {
    json_t *facts = json_build("the ledger", "{s:s, s:s}", "key", key.text, "files", files.text);
    MUST(ledger_add(p->work.ledger, kind, "", facts, &error));
}

/* Returns the texts of the kept clips, one per line; free(). */
static char *corpus_text(const Prepare *p) {
    Bytes text = {0};
    for (int64_t i = 0; i < p->n; i++) {
        if (p->clips[i].reject != CLIP_KEPT) continue;
        bytes_add(&text, p->clips[i].normalized, strlen(p->clips[i].normalized));
        bytes_add(&text, "\n", 1);
    }
    bytes_add(&text, "", 1);
    return text.at;
}

/* Checks here what SentencePiece would refuse, because it would name a line of the corpus, not of the list. */
static void check_characters(const Prepare *p) {
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].reject == CLIP_KEPT && strstr(p->clips[i].normalized, "\u2585"))
            die_of_text(p, &p->clips[i], "the text holds U+2585, which SentencePiece reserves: remove it");
}

static void train_tokenizer(Prepare *p) {
    OWNED char *corpus = corpus_text(p);
    Fingerprint key = fingerprint_of("%lld\n%s", (long long)p->sizes.vocabulary, corpus);
    p->tokenizer_reused = is_made(p, "tokenizer", key, fingerprint_file(p->tokenizer_path));
    if (p->tokenizer_reused) return;
    check_characters(p);
    prepare_outputs_remove_manifests(p->options->output);
    MUST_OR(sentencepiece_train_bpe(corpus, strlen(corpus), p->tokenizer_path, (int)p->sizes.vocabulary, &error),
            "the tokenizer: %s", error.text);
    note_made(p, "tokenizer", key, fingerprint_file(p->tokenizer_path));
}

/* Copies the given model to where train_gpt looks for it. */
static void copy_tokenizer(Prepare *p) {
    const char *from = p->options->tokenizer;
    OWNED char *bytes = NULL;
    size_t size;
    MUST_OR(read_file(from, &bytes, &size, &error), "%s: %s", from, error.text);
    p->tokenizer_reused = !strcmp(fingerprint_file(from).text, fingerprint_file(p->tokenizer_path).text);
    if (p->tokenizer_reused) return;
    prepare_outputs_remove_manifests(p->options->output);
    MUST(file_write_atomic(p->tokenizer_path, bytes, size, &error));
}

void prepare_tokenizer(Prepare *p) {
    const char *path = p->options->tokenizer ? p->options->tokenizer : p->tokenizer_path;
    if (!p->options->tokenizer) train_tokenizer(p);
    MUST_OR(p->tokenizer = sentencepiece_open(path, &error), "%s: %s%s", path, error.text,
            p->options->tokenizer ? "; without --tokenizer one is trained" : "");
    if (p->options->tokenizer) copy_tokenizer(p);
}

void prepare_texts(Prepare *p) {
    Unknown missing = {.encode = sentencepiece_encode_plain, .tokenizer = p->tokenizer};
    for (int64_t i = 0; i < p->n; i++) {
        Clip *clip = &p->clips[i];
        const TokenIds none = {0};
        TokenIds ids = {0};
        if (clip->reject != CLIP_KEPT) continue;
        sentencepiece_encode(p->tokenizer, clip->normalized, strlen(clip->normalized), false, &ids);
        unknown_add(&missing, clip->normalized, strlen(clip->normalized), &none, &ids);
        clip->ids = ids.ids, clip->n_ids = (int)ids.n;
        clip->reject = !clip->n_ids ? CLIP_EMPTY_TEXT : clip->n_ids > MAX_TEXT_TOKENS ? CLIP_LONG_TEXT : CLIP_KEPT;
    }
    OWNED char *characters = unknown_characters(&missing);
    MUST(unknown_check("the texts", missing.unknown, missing.pieces, characters, p->options->max_unknown, &error));
    unknown_free(&missing);
    check_some_left(p);
}

/* ---- the codebook ---- */

/* Returns marks on `want` of `total` frames, every such set equally likely (Knuth, volume 2, algorithm 3.4.2 S);
 * free(). */
static unsigned char *choose_frames(uint64_t seed, int64_t total, int64_t want) {
    unsigned char *chosen = xcalloc((size_t)total, 1);
    for (int64_t i = 0, left = want; left > 0; i++) {
        Philox r = philox(seed, PURPOSE_KMEANS, 1, (uint64_t)i);
        double u = (double)((uint64_t)r.x[0] << 21 | r.x[1] >> 11) * 0x1p-53;
        chosen[i] = u * (double)(total - i) < (double)left;
        left -= chosen[i];
    }
    return chosen;
}

typedef struct {
    float *frames; /* [n, MEL_BANDS] */
    int64_t n;
} Sample;

/* Copies the chosen frames of each clip to their place in the sample. Frame t of clip i is number first[i] + t of all;
 * the chosen ones of clip i go to place[i] on. */
static void fill_sample(const Prepare *p, const unsigned char *chosen, const int64_t *first, const int64_t *place,
                        float *frames) {
    Progress progress = {.what = "[Codebook] reading frames:", .total = p->n, .start = seconds_now()};
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers)
    for (int64_t i = 0; i < p->n; i++) {
        const Clip *clip = &p->clips[i];
        int64_t to = place[i];
        OWNED float *from = NULL;
        Error error;
        if (place[i + 1] > to) {
            if (!clip_frames(&p->work, clip, &from, &error)) fail(&error);
            for (int64_t t = 0; t < clip->n_codes; t++)
                if (chosen[first[i] + t])
                    memcpy(frames + MEL_BANDS * to++, from + MEL_BANDS * t, MEL_BANDS * sizeof *frames);
        }
        progress_step(&progress);
    }
}

static Sample sample_frames(const Prepare *p) {
    OWNED int64_t *first = xcalloc((size_t)p->n + 1, sizeof *first), *place = xcalloc((size_t)p->n + 1, sizeof *place);
    for (int64_t i = 0; i < p->n; i++)
        first[i + 1] = first[i] + (p->clips[i].reject == CLIP_KEPT ? p->clips[i].n_codes : 0);
    Sample sample = {.n = p->sizes.codebook_size * p->options->frames_per_entry};
    if (sample.n > first[p->n]) sample.n = first[p->n];
    OWNED unsigned char *chosen = choose_frames((uint64_t)p->options->seed, first[p->n], sample.n);
    for (int64_t i = 0; i < p->n; i++) {
        place[i + 1] = place[i];
        for (int64_t t = first[i]; t < first[i + 1]; t++) place[i + 1] += chosen[t];
    }
    sample.frames = xmalloc((size_t)sample.n * MEL_BANDS * sizeof *sample.frames);
    fill_sample(p, chosen, first, place, sample.frames);
    return sample;
}

static void show_iteration(void *context, int iteration, double inertia) {
    const Sample *sample = context;
    terminal_progress("[Codebook] iteration %d: mean squared error %.4f", iteration,
                      inertia / ((double)sample->n * MEL_BANDS));
}

static void train_codebook(Prepare *p) {
    const PrepareOptions *o = p->options;
    Sample sample = sample_frames(p);
    SpeechCoder coder = {.seed = (uint64_t)o->seed, .frames = sample.n};
    KmeansOptions options = {.entries = p->sizes.codebook_size,
                             .iterations = (int)o->kmeans_iterations,
                             .seed = (uint64_t)o->seed,
                             .n_threads = (int)o->num_workers,
                             .progress = show_iteration,
                             .context = &sample};
    KmeansReport report;
    terminal_progress("[Codebook] choosing the initial entries");
    speech_coder_statistics(sample.frames, sample.n, coder.mean, coder.deviation);
    MUST_OR(kmeans_train(sample.frames, sample.n, MEL_BANDS, &options, &coder.codebook, &report, &error),
            "the codebook: %s; give more recordings, or a smaller --codebook-size", error.text);
    terminal_progress_end();
    coder.squared_error = report.inertia / (double)sample.n;
    coder.iterations = report.iterations;
    MUST(speech_coder_write(p->codebook_path, &coder, &error));
    speech_coder_close(&coder);
    free(sample.frames);
}

/* Returns the fingerprint of both files of a codebook, because a kill between writing them leaves two that do not
 * belong together. */
static Fingerprint codebook_files(const char *path) {
    OWNED char *facts_path = speech_coder_facts_path(path);
    return fingerprint_of("%s %s", fingerprint_file(path).text, fingerprint_file(facts_path).text);
}

/* Returns the fingerprint of what a codebook is made from: options and the audio of the kept clips. */
static Fingerprint codebook_key(const Prepare *p) {
    const PrepareOptions *o = p->options;
    Bytes clips = {0};
    for (int64_t i = 0; i < p->n; i++)
        if (p->clips[i].reject == CLIP_KEPT) bytes_add(&clips, p->clips[i].audio_key, 40);
    bytes_add(&clips, "", 1);
    OWNED char *keys = clips.at;
    return fingerprint_of("%lld %lld %lld %lld\n%s", (long long)p->sizes.codebook_size, (long long)o->kmeans_iterations,
                          (long long)o->frames_per_entry, (long long)o->seed, keys);
}

static void copy_codebook(Prepare *p) {
    SpeechCoder coder;
    MUST(speech_coder_read(p->options->codebook, &coder, &error));
    if (strcmp(codebook_files(p->options->codebook).text, codebook_files(p->codebook_path).text) != 0) {
        prepare_outputs_remove_manifests(p->options->output);
        MUST(speech_coder_write(p->codebook_path, &coder, &error));
    }
    speech_coder_close(&coder);
}

/* An entry made from few frames stands for those frames and not for a sound in general. */
static void warn_of_few_frames(const Prepare *p) {
    enum { FEW = 10 };
    int64_t frames = prepare_count_frames(p->clips, p->n), entries = p->sizes.codebook_size, fitting = 2;
    while (2 * fitting * FEW <= frames) fitting *= 2;
    bool wide = p->sizes.d_model > PREPARE_SMALL_WIDTH;
    OWNED char *width =
        wide ? xformat(", and with so little speech a smaller model: --d-model %d", PREPARE_SMALL_WIDTH) : NULL;
    if (frames < FEW * entries && !p->options->fit.codebook_size)
        warn("the clips have only %.1f frames for each of the %lld entries of the codebook; at least %d are advisable: "
             "choose --codebook-size %lld%s",
             (double)frames / (double)entries, (long long)entries, FEW, (long long)fitting, width ? width : "");
}

void prepare_codebook(Prepare *p) {
    if (p->options->codebook) {
        copy_codebook(p);
    } else {
        warn_of_few_frames(p);
        Fingerprint key = codebook_key(p);
        p->codebook_reused = is_made(p, "codebook", key, codebook_files(p->codebook_path));
        if (!p->codebook_reused) {
            prepare_outputs_remove_manifests(p->options->output);
            train_codebook(p);
            note_made(p, "codebook", key, codebook_files(p->codebook_path));
        }
    }
    MUST(speech_coder_read(p->codebook_path, &p->coder, &error));
    p->entries = p->coder.codebook.entries;
}

/* ---- codes and vectors ---- */

/* Writes the text ids of clips of which only the text, or the tokenizer, is another. */
static void write_texts(const Prepare *p, const bool *todo, const char *setup) {
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers)
    for (int64_t i = 0; i < p->n; i++) {
        Error error;
        if (!todo[i] && p->clips[i].other_text && !clip_write_text(&p->work, &p->clips[i], setup, &error)) fail(&error);
    }
}

bool *prepare_find_uncoded(Prepare *p, const char *setup) {
    bool *todo = xcalloc((size_t)p->n, sizeof *todo);
    Progress progress = {.what = "[Codes] checking existing files:", .total = p->n, .start = seconds_now()};
    int64_t reused = 0, stale = 0, texts = 0;
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers) reduction(+ : reused, stale, texts)
    for (int64_t i = 0; i < p->n; i++) {
        Clip *clip = &p->clips[i];
        if (clip->reject == CLIP_KEPT) {
            bool coded = clip_is_coded(&p->work, clip, setup, p->entries, p->sizes.d_model);
            todo[i] = !coded && !(clip->other_text && p->options->foreign_codes);
            if (todo[i]) {
                free(clip->codes);
                clip->codes = NULL;
            }
            reused += !todo[i];
            stale += todo[i] && clip->stale;
            texts += !todo[i] && !coded;
        }
        progress_step(&progress);
    }
    p->codes_reused = reused;
    p->recoded = stale;
    p->texts_written = texts;
    if (stale || texts) prepare_outputs_remove_manifests(p->options->output);
    if (texts) write_texts(p, todo, setup);
    return todo;
}

void prepare_codes(Prepare *p) {
    PromptMap map = prompt_map_open(&p->coder, p->sizes.d_model);
    Fingerprint setup = fingerprint_of("%s %s %lld", fingerprint_file(p->tokenizer_path).text,
                                       codebook_files(p->codebook_path).text, (long long)p->sizes.d_model);
    OWNED bool *todo = prepare_find_uncoded(p, setup.text);
    Progress progress = {.what = "[Codes]", .total = p->n, .start = seconds_now()};
    int64_t now = 0;
#pragma omp parallel for schedule(dynamic) num_threads((int)p->options->num_workers) reduction(+ : now)
    for (int64_t i = 0; i < p->n; i++) {
        Error error;
        if (todo[i] && !clip_code(&p->work, &p->clips[i], &map, setup.text, &error)) fail(&error);
        now += todo[i];
        progress_step(&progress);
    }
    p->coded_now = now;
    prompt_map_close(&map);
}
