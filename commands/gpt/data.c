#include "commands/gpt/data.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/format.h"
#include "data/text/unknown.h"

/* ---- the report ---- */

/* Prints "WHAT MIN..MEDIAN..MAX". */
static void print_quantiles(const char *what, const int64_t *quantiles) {
    printf("%s %lld..%lld..%lld", what, (long long)quantiles[0], (long long)quantiles[2], (long long)quantiles[4]);
}

void gpt_report_dataset(const char *name, const GptDatasetOptions *options, const GptDatasetReport *r) {
    char duration[32], read[64];
    double unknown = r->text_tokens ? 100.0 * (double)r->unknown_tokens / (double)r->text_tokens : 0.0;
    if (options->lengths_only)
        snprintf(read, sizeof read, "lengths as the manifest has them, no file is read");
    else
        snprintf(read, sizeof read, "%.2f %% unknown", unknown);
    printf("[Data] %s: %lld samples (%lld paired, %lld single) of %lld lines, %s of audio per epoch, %lld text tokens "
           "(%s), %lld codes; ",
           name, (long long)r->samples, (long long)r->paired, (long long)r->single, (long long)r->lines,
           format_duration(r->seconds_of_audio, duration), (long long)r->text_tokens, read, (long long)r->codes);
    print_quantiles("text", r->text_length_quantiles);
    print_quantiles(", codes", r->code_length_quantiles);
    printf("\n");
    if (r->padded_codes || r->equal_code_runs)
        printf("[Data] %s: %lld lines have more or fewer codes than their duration says, %lld runs of lines have equal "
               "code_len: signs of padding stored as data; %lld repaired%s\n",
               name, (long long)r->padded_codes, (long long)r->equal_code_runs, (long long)r->repaired,
               options->repair_codes ? "" : " (--repair-codes cuts them)");
    if (r->no_duration)
        printf("[Data] %s: %lld lines have no duration: their padding cannot be checked\n", name,
               (long long)r->no_duration);
}

void gpt_check_unknown(const char *name, const GptDatasetReport *r, double most) {
    MUST(unknown_check(name, r->unknown_tokens, r->text_tokens, "", most, &error));
}

void gpt_warn_of_shared_manifests(const OptionList *trained, const OptionList *validated) {
    for (int i = 0; i < trained->count; i++)
        for (int j = 0; j < validated->count; j++) {
            OWNED char *a = NULL, *b = NULL, *language_of_a = NULL, *language_of_b = NULL;
            file_split_label(trained->text[i], &a, &language_of_a);
            file_split_label(validated->text[j], &b, &language_of_b);
            if (file_is_same(a, b))
                warn("--val-manifest %s is the same file as --manifest %s: validation is on samples that are trained "
                     "on; give another file, or leave the option out, so that --val-ratio holds samples out",
                     b, a);
        }
}

/* ---- the synthetic epoch ---- */

enum { CODES_PER_SECOND = 50, USUAL_TEXT = 100, USUAL_CODES = 5 * CODES_PER_SECOND, EPOCH_SAMPLES = 1024 };

static const double TEXT_PER_SECOND = 2.3;

/* A normal distribution of codes per sample, cut at 1 and at `max`. */
typedef struct {
    double mean, deviation, max;
} CodeLengths;

static CodeLengths parse_lengths(const char *text, int longest) {
    CodeLengths l;
    char rest;
    if (sscanf(text, "%lf,%lf,%lf%c", &l.mean, &l.deviation, &l.max, &rest) != 3 || !(l.mean >= 1) ||
        !(l.deviation >= 0) || !isfinite(l.deviation) || !isfinite(l.max))
        die_usage(
            "--lengths %s: expected MEAN,SD,MAX, three numbers of audio codes (%d per second) such as 250,120,800",
            text, CODES_PER_SECOND);
    if (l.mean > l.max) die_usage("--lengths %s: the mean is larger than the maximum", text);
    if (l.max > longest)
        die_usage("--lengths %s: the model takes at most %d codes; raise --max-mel-tokens, or give a smaller maximum",
                  text, longest);
    return l;
}

/* Returns the z below which this share of the standard normal distribution lies, by bisection. */
static double normal_quantile(double share) {
    double low = -9, high = 9;
    while (high - low > 1e-9) {
        double z = (low + high) / 2;
        *(erfc(-z / sqrt(2)) / 2 < share ? &low : &high) = z;
    }
    return low;
}

/* Prints "WHAT MEAN +- DEVIATION, MIN..MEDIAN..MAX" of sorted lengths. */
static void print_lengths(const char *what, const int32_t *lengths, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += lengths[i];
        squares += (double)lengths[i] * lengths[i];
    }
    double mean = sum / (double)n;
    printf("%s %.1f +- %.1f, %d..%d..%d", what, mean, sqrt(fmax(squares / (double)n - mean * mean, 0)), lengths[0],
           lengths[n / 2], lengths[n - 1]);
}

Dataset *gpt_synthetic_open(const GptLayout *layout, const char *lengths, int64_t batch_size, int64_t token_budget) {
    double text_per_code = lengths ? TEXT_PER_SECOND / CODES_PER_SECOND : (double)USUAL_TEXT / USUAL_CODES;
    int64_t n = batch_size ? batch_size : 1 + token_budget / (USUAL_TEXT + USUAL_CODES);
    CodeLengths l = {USUAL_CODES, 0, fmin(USUAL_CODES, layout->max_codes)};
    if (lengths) {
        l = parse_lengths(lengths, layout->max_codes);
        n *= (EPOCH_SAMPLES + n - 1) / n; /* whole micro-batches */
    }
    OWNED int32_t *text = xcalloc((size_t)n, sizeof *text), *codes = xcalloc((size_t)n, sizeof *codes);
    for (int64_t i = 0; i < n; i++) {
        double z = l.deviation > 0 ? normal_quantile(((double)i + 0.5) / (double)n) : 0;
        codes[i] = (int32_t)lrint(fmin(fmax(l.mean + z * l.deviation, 1), floor(l.max)));
        text[i] = (int32_t)fmin(fmax(round(codes[i] * text_per_code), 1), layout->max_text);
    }
    if (lengths) {
        printf("[Data] synthetic: %lld samples;", (long long)n);
        print_lengths(" codes", codes, n);
        print_lengths(", text tokens", text, n);
        printf("\n");
    }
    return gpt_dataset_lengths(layout, text, codes, n);
}
