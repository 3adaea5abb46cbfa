#include "tests/train/story.h"

#include "base/file.h"
#include "page/page.h"

const double story_falling[5] = {1.0, 0.9, 0.8, 0.7, 0.6}, story_flat[5] = {0.8, 0.7, 0.69, 0.69, 0.69};
const char story_ended[] = ", \"summary/ended\": 1, \"summary/out_of_patience\": 0, \"summary/signal\": 0";
const Story story_finished = {5, story_falling, story_flat, .end = story_ended};

static const char start_record[] =
    "{\"kind\": \"start\", \"step\": 0, \"time\": 0.0, \"date\": \"2026-11-23T10:00:00Z\", \"program\": \"train_toy\", "
    "\"version\": \"0.9\", \"revision\": \"abcdef012345\", \"command\": \"./train_toy -b 8 '<i>'\", \"host\": \"box\", "
    "\"machine\": \"NVIDIA L4\", \"device\": \"cuda: NVIDIA L4\", \"numbers\": \"bf16\", \"peak_flops\": 121e12, "
    "\"device_bytes\": 24000000000, \"planned_bytes\": 2000000000, \"model\": \"toy\", \"parameters\": 1234, "
    "\"parameters_trained\": 1200, \"total_steps\": %d, \"metric\": \"val/auroc\", \"samples\": 640, "
    "\"validation_samples\": 64, \"data_hash\": \"00000000000000d1\", \"content_hash\": \"00000000000000d2\", "
    "\"validation_hash\": \"00000000000000d3\", \"baseline\": \"guess\", \"baseline_metric\": \"loss\", "
    "\"baseline_value\": 0.9, \"price_per_hour\": 0.8, \"currency\": \"EUR\", "
    "\"options\": {\"learning-rate\": %s, \"name\": \"<script>alert(1)</script>\", \"manifest\": [\"a\", \"b\"]}, "
    "\"defaults\": {\"learning-rate\": 2e-05, \"name\": null, \"manifest\": []}, \"given\": [\"learning-rate\"], "
    "\"adopted\": [\"manifest\"]}\n";

void story_write_in(const char *directory, const Story *s) {
    FILE *out = fopen(kept_path(directory, "log.jsonl"), "w");
    int best = 0;
    if (!s->old) fprintf(out, start_record, 10 * s->validations, s->rate ? s->rate : "0.001");
    for (int i = 0; i < s->validations; i++) {
        if (s->val[i] < s->val[best]) best = i;
        fprintf(out,
                "{\"kind\": \"train\", \"step\": %d, \"time\": %d, \"train/loss\": %g, \"train/lr\": 1e-3, "
                "\"train/steps_per_second\": 2, \"train/tokens_per_second\": 5000, \"train/epoch\": %d, "
                "\"train/mfu\": 0.34}\n",
                10 * (i + 1), 3600 * (i + 1), s->train[i], i + 1);
        fprintf(out,
                "{\"kind\": \"val\", \"step\": %d, \"time\": %d, \"val/loss\": %g, \"val/auroc\": %g, "
                "\"val/epoch\": %d, \"val/objective\": %g, \"val/best_step\": %d}\n",
                10 * (i + 1), 3600 * (i + 1), s->val[i], 1 - s->val[i] / 2, i + 1, s->val[i], 10 * (best + 1));
    }
    if (s->end)
        fprintf(out,
                "{\"kind\": \"summary\", \"step\": %d, \"time\": %d, \"summary/peak_bytes\": 1900000000, "
                "\"summary/skipped_steps\": 2%s}\n",
                10 * s->validations, 3600 * s->validations, s->end);
    fclose(out);
}

char *story_write(const Story *s) {
    char *directory = kept_folder();
    story_write_in(directory, s);
    return directory;
}

char *story_page(const char *directory) {
    Error error;
    if (!page_write_in(directory, PAGE_DEPTH, false, &error)) fail_msg("%s", error.text);
    return read_page(directory);
}

void put_text(const char *directory, const char *name, const char *text) {
    char *path = kept_path(directory, name), *folder = keep(path_directory(path));
    make_directories(folder);
    write_text(path, "%s", text);
}
