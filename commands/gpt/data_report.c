#include "commands/gpt/data_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/format.h"
#include "data/text/unknown.h"

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
    Error error;
    if (!unknown_check(name, r->unknown_tokens, r->text_tokens, "", most, &error)) die("%s", error.text);
}

void gpt_warn_of_shared_manifests(const OptionList *trained, const OptionList *validated) {
    for (int i = 0; i < trained->count; i++)
        for (int j = 0; j < validated->count; j++) {
            char *a, *b, *language[2];
            file_split_label(trained->text[i], &a, &language[0]);
            file_split_label(validated->text[j], &b, &language[1]);
            if (file_is_same(a, b))
                warn("--val-manifest %s is the same file as --manifest %s: validation is on samples that are trained "
                     "on; give another file, or leave the option out, so that --val-ratio holds samples out",
                     b, a);
            char *owned[] = {a, b, language[0], language[1]};
            for (int k = 0; k < 4; k++) free(owned[k]);
        }
}
