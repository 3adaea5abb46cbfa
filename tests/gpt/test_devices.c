/* The messages of train_gpt without a GPU, and the defaults of a preset's program. $BUILD is the folder of the
 * program: of the CPU's (build/release), or of one built for a card (build/release/gpu_l4, with GPU_PRESET=l4). */
#include "tests/gpt/train_rig.h"

static const char *why_there_is_none(void) {
    return getenv("GPU_PRESET") ? "there is no NVIDIA" : "this program was built without CUDA";
}

/* With a GPU, the messages without one cannot be tested. */
static void skip_where_there_is_a_gpu(void) {
    if (!getenv("GPU_PRESET") || access("/dev/nvidiactl", F_OK)) return;
    fprintf(stderr, "SKIPPED: what is said without a GPU: there is one\n");
    skip();
}

TEST(a_missing_gpu_is_reported_in_one_line) {
    skip_where_there_is_a_gpu();
    char *run = kept_folder(), *line = kept_format("--device cuda: %s", why_there_is_none());
    assert_int_equal(fixture_train(run, "--device cuda >/dev/null"), 1);
    assert_contains(fixture.output, line);
    assert_ptr_equal(strchr(fixture.output, '\n'), fixture.output + strlen(fixture.output) - 1);
}

TEST(auto_trains_on_the_cpu_and_gives_the_reason) {
    skip_where_there_is_a_gpu();
    char *run = kept_folder(), *other = kept_folder(), *line = kept_format("; no GPU is used: %s", why_there_is_none());
    fixture_must_train(run, "--device auto --max-steps 2");
    assert_contains(fixture.output, "[Device] cpu: ");
    assert_contains(fixture.output, line);
    fixture_must_train(other, "--device cpu --max-steps 2");
    assert_null(strstr(fixture.output, "no GPU"));
}

/* The runtime is linked in, and the driver is loaded only when a GPU is used. */
TEST(no_library_of_cuda_is_loaded) {
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "ldd %s", fixture.program), 0);
    assert_contains(fixture.output, "libc.so");
    const char *const names[] = {"libcu", "libnv", "nvidia"};
    for (int i = 0; i < 3; i++)
        if (strstr(fixture.output, names[i])) fail_msg("%s in\n%s", names[i], fixture.output);
}

TEST(a_preset_sets_the_defaults) {
    const char *preset = getenv("GPU_PRESET");
    if (!preset) skip(); /* then the table of the README is what is compared */
    static const char *const names[][2] = {{"GPU_BATCH = ", "`-b`, `--batch-size N\\|auto` | %ld |"},
                                           {"GPU_ACCUMULATION = ", "`-g`, `--grad-accumulation N` | %ld |"},
                                           {"GPU_WORKERS = ", "`--num-workers N` | %ld |"}};
    char *path = kept_format("configs/gpu/%s.mk", preset), *text = kept_text(path);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s --help-markdown", fixture.program), 0);
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(text, names[i][0]);
        char row[128];
        assert_non_null(at);
        snprintf(row, sizeof row, names[i][1], strtol(at + strlen(names[i][0]), NULL, 10));
        assert_contains(fixture.output, row);
    }
    assert_contains(fixture.output, kept_format("`--gpu NAME\\|all\\|here` | %s |", preset));
}

static int hide_gpus(void **state) {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    return gpt_fixture_open(state);
}

int main(void) { return tests_run(hide_gpus, NULL); }
