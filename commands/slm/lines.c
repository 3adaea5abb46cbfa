#include "commands/slm/lines.h"

#include <stdio.h>

#include "base/format.h"
#include "model/slm.h"

double slm_printed_mfu(double parameters, double tokens) { return 8 * parameters * tokens / 312e12; }

/* Writes "mfu 13.82% of 165 TFLOP/s"; "mfu n/a, 35 GFLOP/s" where no peak is known. */
static void utilisation_text(const SlmLines *lines, const StepLine *line, char text[128]) {
    char rate[32], printed[64] = "";
    const char *name = lines->recomputes ? "hfu" : "mfu";
    double peak = line->peak > 0 ? line->peak : lines->peak;
    if (lines->printed) {
        snprintf(printed, sizeof printed, "mfu %.2f%% as the reference prints it, ",
                 100 * slm_printed_mfu(lines->parameters, line->tokens));
        name = lines->recomputes ? "true hfu" : "true mfu";
    }
    if (peak > 0)
        snprintf(text, 128, "%s%s %.2f%% of %s%s", printed, name, 100 * line->flops / peak,
                 format_count(peak, "FLOP/s", rate), line->peak > 0 ? "" : " measured");
    else
        snprintf(text, 128, "%s%s n/a, %s", printed, name, format_count(line->flops, "FLOP/s", rate));
}

void slm_print_step(const void *context, const StepLine *line) {
    char utilisation[128];
    utilisation_text(context, line, utilisation);
    printf("iter %lld: loss %.4f, time %.2fms, %s, %.0f tokens/s, lr %.2e, grad_norm %.3f%s\n", (long long)line->step,
           line->values[SLM_LOSS], 1e3 * line->step_seconds, utilisation, line->tokens, line->learning_rate,
           line->grad_norm, line->rest);
}

void slm_print_validation(const void *context, const ValidationLine *line) {
    const SlmLines *lines = context;
    char bits[48] = "";
    if (lines->bits) snprintf(bits, sizeof bits, ", bits per byte %.4f", line->values[SLM_BITS_PER_BYTE]);
    printf("step %lld: train loss %.4f, val loss %.4f, perplexity %.2f%s, top1 %.2f%% (%lld batch%s, %.1f s)\n",
           (long long)line->step, line->train[SLM_LOSS], line->values[SLM_LOSS], line->values[SLM_PERPLEXITY], bits,
           100 * line->values[SLM_TOP1], (long long)line->batches, line->batches == 1 ? "" : "es", line->seconds);
}
