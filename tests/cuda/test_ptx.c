/* The executor of PTX itself (kernels/cuda/emulate/ptx): it knows all that nvcc makes of the kernels, and sees what is
 * planted in their PTX. Skipped where kernels are not PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device_open.h"
#include "tests/cuda/rig.h"
#include "tests/test.h"

/* The executor's function; NULL in other programs. */
__attribute__((weak)) int emulate_read_ptx(void);

static void read_all(void *unused) {
    (void)unused;
    printf("%d functions\n", emulate_read_ptx());
    fflush(stdout);
}

/* Runs in a child, because the PTX of a program is read once. */
TEST(every_function_is_understood) {
    if (!emulate_read_ptx) skip();
    int cards, read = 0;
    const int *built_for = cuda_architectures(&cards);
    for (; read < cards && built_for[read] <= 800; read++) { /* newer cards get the PTX for 8.0 */
        char output[4096], card[16];
        snprintf(card, sizeof card, "%d", built_for[read] / 10);
        setenv("EMULATE_CAPABILITY", card, 1);
        int status = run_function(output, sizeof output, read_all, NULL), n = 0;
        if (status || sscanf(output, "%d functions", &n) != 1) fail_msg("%s: exit status %d: %s", card, status, output);
        assert_true(n > 300);
        print_message("sm_%s: %d functions\n", card, n);
    }
    assert_true(read > 0);
    unsetenv("EMULATE_CAPABILITY");
}

/* ---- planted mistakes ---- */

/* Each in a child, because the PTX of a program is read once. */
enum { ROWS = 4, COLUMNS = 1280 };
static uint64_t seed = 1; /* the rig's, where it is not another */

static void normalize(void *change) {
    setenv("EMULATE_PTX_FILTER", change, 1);
    Rig rig = rig_open(DTYPE_BF16);
    emulate_set_seed(seed);
    Pair x = pair_normal(&rig, DTYPE_F32, ROWS, COLUMNS, 1), y = pair_poisoned(&rig, DTYPE_F32, ROWS, COLUMNS);
    Pair gain = pair_normal(&rig, DTYPE_F32, COLUMNS, 0, 1), bias = pair_normal(&rig, DTYPE_F32, COLUMNS, 0, 1);
    Pair mean = pair_poisoned(&rig, DTYPE_F32, ROWS, 0), rstd = pair_poisoned(&rig, DTYPE_F32, ROWS, 0);
    layernorm_forward(rig.cuda, (LayerNormOutput){y.cuda, mean.cuda, rstd.cuda}, x.cuda, gain.cuda, bias.cuda,
                      LAYERNORM_EPSILON);
    rig.cuda->synchronize(rig.cuda);
    rig_close(&rig);
    printf("done\n");
}

TEST(planted_mistakes_are_named) {
    if (!emulate_read_ptx) skip();
    static const struct {
        const char *change, *words;
    } cases[] = {
        {"cat", "done"},
        {"false", "EMULATE_PTX_FILTER: false has failed"},
        {"sed 's/add.f32/add.f31/'", "the form add.f31 is not known"},
        {"sed 's/ld.global.v4.f32/ld.glob.v4.f32/'", "the form ld.glob.v4.f32 is not known"},
        {"sed 's/^fma.rn.f32 \\(.*\\), %f[0-9]*;/fma.rn.f32 \\1;/'", "too few operands"},
        {"sed 's/^\\.reg .f32/.reg .f128/'", "unknown type of registers"},
        {"sed 's/^mov.u32 %r[0-9]*, %tid.x;//'", "a register that has not been written"},
        {"sed 's/%tid.x/%clock/'", "the special register %clock is not known"},
        {"sed 's/^bar.sync.*//'", "of shared memory that have not been written"},
        {"sed 's/\\(ld.global.v4.f32.*\\)\\]/\\1+4]/'", "is not a multiple of 16"},
        {"sed 's/\\(ld.global.v4.f32.*\\)\\]/\\1+1048576]/'", "outside all global memory"},
        {"sed 's/st.shared/st.local/'", "no address in the thread's memory"},
        {"sed 's/^bar.sync 0/bar.sync 16/'", "expected the same one, of 0 to 15"},
        {"sed 's/^ld.shared.*\\(\\[.*\\]\\);/st.shared.u32 \\1, 0; &/'", "has written, with no barrier between"},
        {"sed 's/^\\.param .u64 \\(.*_param_0\\)/.param .b8 \\1[4096]/'", "bytes of parameters, more than 4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[8192];
        int status = run_function(output, sizeof output, normalize, (void *)(uintptr_t)cases[i].change);
        if (!strstr(output, cases[i].words) || (status == 0) != (i == 0))
            fail_msg("%s: exit status %d, \"%s\" is not in:\n%s", cases[i].change, status, cases[i].words, output);
        if (i > 3 && i + 1 < sizeof cases / sizeof *cases && !strstr(output, "line"))
            fail_msg("no line of the PTX in:\n%s", output);
    }
}

/* ---- instructions, planted where the kernels first ask for their thread ---- */

/* Runs statements on the registers %a0 to %a9 and %b0 to %b9, of 32 and 64 bits, the predicates %p and %q, the shared
 * variable `words`, the global `two` and the constant `three`, and a function that exits. Returns the exit status. */
static int run_statements(const char *statements, char *output, size_t bytes) {
    char *change =
        xformat("sed 's/^mov.u32 %%r[0-9]*, %%tid.x;/{ .reg .b32 %%a<10>; .reg .b64 %%b<10>; .reg .pred %%p, %%q; "
                ".shared .align 4 .b8 words[64]; %s } &/; s/^.address_size 64/&\\n.global .b32 two[2] = {3, 5};"
                "\\n.const .b32 three = 7;\\n.func exits()\\n{\\nexit;\\n}/'",
                statements);
    int status = run_function(output, bytes, normalize, change);
    free(change);
    return status;
}

/* Each leaves in %a0 what the description of its instruction says. */
TEST(instructions_compute_as_documented) {
    if (!emulate_read_ptx) skip();
    static const struct {
        const char *statements;
        int64_t result;
    } cases[] = {
        {"mov.b32 %a1, 0x80; bfe.s32 %a0, %a1, 0, 8;", -128}, /* the sign is that of the field */
        {"mov.b32 %a1, 0x80; bfe.s32 %a0, %a1, 0, 9;", 128},
        {"mov.b32 %a1, 0x80000000; bfe.s32 %a0, %a1, 40, 4;", -1}, /* beyond the number: its sign */
        {"mov.b32 %a1, 0x80000000; bfe.u32 %a0, %a1, 28, 16;", 8},
        {"mov.b64 %b1, 0x0000008000000000; bfe.s64 %b2, %b1, 32, 8; cvt.u32.u64 %a0, %b2;", -128},
        {"mov.f32 %a1, 0f7FC00000; cvt.rzi.s32.f32 %a0, %a1;", 0},
        {"mov.f32 %a1, 0f7FC00000; cvt.rzi.s64.f32 %b1, %a1; shr.u64 %b1, %b1, 32; cvt.u32.u64 %a0, %b1;", 0x80000000},
        {"mov.f64 %b1, 0d7FF8000000000000; cvt.rzi.u32.f64 %a0, %b1;", 0x80000000},
        {"mov.f32 %a1, 0f7FC00000; div.approx.f32 %a2, %a1, 0f7F000000; setp.nan.f32 %p, %a2, %a2; "
         "selp.b32 %a0, 1, 0, %p;",
         1},
        {"mov.f32 %a1, 0fBF800000; div.approx.f32 %a0, %a1, 0f7F000001;", 0x80000000},
        {"mov.u64 %b1, two; ld.global.u32 %a0, [%b1+4];", 5}, /* elements of a variable, not bytes */
        {"mov.u64 %b1, two; mov.b32 %a1, 1; atom.global.exch.b32 %a2, [%b1], %a1; bar.sync 0; "
         "red.global.add.f32 [%b1], %a1; ld.global.u32 %a0, [%b1];",
         0}, /* subnormal numbers are flushed there */
        {"mov.u32 %a2, %tid.x; setp.eq.u32 %p, %a2, 0; mov.b32 %a0, 1; @%p st.shared.b32 [words], %a0; "
         "@%p red.shared.add.f32 [words], 0f00000000; @%p ld.shared.b32 %a0, [words];",
         1}, /* but not here */
        {"mov.u64 %b1, two; ld.global.nc.u32 %a0, [%b1]; st.global.u32 [%b1+4], %a0;", 3},
        {"mov.u64 %b1, three; ld.const.u32 %a0, [%b1];", 7},
        {".local .align 4 .b8 mine[4]; ld.local.u32 %a0, [mine]; mov.b32 %a1, 5; st.local.u32 [mine], %a1;",
         -1}, /* in every block */
        {"mov.f32 %a1, 0f7F800000; sub.f32 %a0, %a1, %a1;", 0x7FFFFFFF},
        {"mov.f32 %a1, 0fFF800000; mul.f32 %a0, %a1, 0f00000000;", 0x7FFFFFFF},
        {"mov.f32 %a1, 0fFFC00001; fma.rn.f32 %a0, %a1, %a1, %a1;", 0x7FFFFFFF},
        {"mov.u64 %b1, two; mov.u32 %a1, %tid.x; setp.lt.u32 %p, %a1, 32; mov.b32 %a2, 1; "
         "@%p st.global.u32 [%b1], %a2; ONE: ld.volatile.global.u32 %a0, [%b1]; setp.ne.u32 %q, %a0, 1; @%q bra ONE;",
         1}, /* warps wait for the first one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int right = 0; right < 2; right++) {
            char output[8192], *all = xformat("%s setp.ne.s32 %%q, %%a0, %lld; @%%q trap;", cases[i].statements,
                                              (long long)(int32_t)cases[i].result + !right);
            int status = run_statements(all, output, sizeof output);
            if ((status == 0) != right) fail_msg("%s: exit status %d: %s", all, status, output);
            free(all);
        }
}

/* Plants what runs on a card by luck, or not at all. */
TEST(planted_statements_are_refused) {
    if (!emulate_read_ptx) skip();
    static const struct {
        const char *statements, *words;
    } cases[] = {
        {"mov.u32 %a1, %tid.x; setp.lt.u32 %p, %a1, 32; @%p bra ONE; bar.sync 0; bra.uni ALL; ONE: bar.sync 0; ALL:",
         "is at another barrier"},
        {"mov.u32 %a1, %tid.x; setp.lt.u32 %p, %a1, 16; @%p bra ONE; bar.sync 0; bra.uni ALL; ONE: bar.sync 0; ALL:",
         "are elsewhere"},
        {"mov.u32 %a1, %tid.x; setp.lt.u32 %p, %a1, 32; @%p ret;", "has returned while others wait"},
        {"ONE: ONE:", "a second label of this name"},
        /* ptxas aligns a variable to what it asks for, 4 */
        {"mov.b32 %a1, 0; st.shared.v4.b32 [words], {%a1, %a1, %a1, %a1};", "is not a multiple of 16"},
        {"mov.u64 %b1, words; cvta.shared.u64 %b1, %b1; cvt.u32.u64 %a1, %b1; st.shared.b32 [%a1], %a1;",
         "is no address in shared memory"},
        {"mov.u64 %b1, words; st.b32 [%b1], 0;", "are outside all global memory"},
        {"mov.b32 %a1, words; mov.u64 %b1, two; cp.async.cg.shared.global [%a1], [%b1], 16, 16;", "no multiples of"},
        {"mov.b32 %a1, words; mov.u64 %b1, two; cp.async.cg.shared.global [%a1], [%b1], 8, 8;", "must be 16"},
        {"mov.b32 %a1, words; mov.u64 %b1, two; cp.async.ca.shared.global [%a1], [%b1], 2, 2;", "must be 4, 8 or 16"},
        {"mov.u64 %b1, two; ld.global.v2.u32 {%a1, %a2}, [%b1];", "is not a multiple of 8"},
        {".local .align 4 .b8 mine[16]; mov.b32 %a1, 0; st.local.v2.u32 [mine], {%a1, %a1};", "is not a multiple of 8"},
        {"mov.u64 %b1, two; ld.global.nc.u32 %a1, [%b1]; st.global.u32 [%b1], %a1;", "has read with .nc"},
        {"mov.u64 %b1, two; ld.global.nc.u32 %a1, [%b1]; red.global.add.u32 [%b1], %a1;", "has read with .nc"},
        {"mov.u64 %b1, two; mov.b32 %a1, 1; st.global.u32 [%b1], %a1; ld.global.nc.u32 %a2, [%b1];",
         "with .nc what the launch has written"},
        {"mov.u64 %b1, three; mov.b32 %a1, 1; st.const.u32 [%b1], %a1;", "the form st.const.u32 is not known"},
        {"mov.u64 %b1, three; mov.b32 %a1, 1; st.global.u32 [%b1], %a1;", "which is constant memory"},
        {"mov.u64 %b1, three; mov.b32 %a1, 1; red.global.add.u32 [%b1], %a1;", "which is constant memory"},
        {"mov.u32 %a1, %tid.x; setp.lt.u32 %p, %a1, 16; @%p bra.uni ONE; ONE:", "which .uni excludes"},
        {"call.uni exits;", "in a function that was called"},
        {"mov.u64 %b1, two; mov.u32 %a1, %tid.x; setp.gt.u32 %p, %a1, 0; @%p bra ALL; ONE: ld.volatile.global.u32 %a1, "
         "[%b1]; setp.ne.u32 %p, %a1, 4; @%p bra ONE; ALL: bar.sync 0;",
         "waits for something"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[8192];
        int status = run_statements(cases[i].statements, output, sizeof output);
        if (!status || !strstr(output, cases[i].words))
            fail_msg("%s: exit status %d, \"%s\" is not in:\n%s", cases[i].statements, status, cases[i].words, output);
    }
}

/* Every warp counts itself in global memory without an atomic: the naive orders give the right number, some random one
 * does not. */
TEST(random_orders_show_lost_updates) {
    if (!emulate_read_ptx) skip();
    static const char statements[] =
        "mov.u64 %b1, two; mov.b32 %a1, 0; st.global.b32 [%b1], %a1; bar.sync 0; ld.global.b32 %a1, [%b1]; "
        "add.s32 %a1, %a1, 1; st.global.b32 [%b1], %a1; bar.sync 0; ld.global.b32 %a0, [%b1]; mov.u32 %a2, %ntid.x; "
        "shr.u32 %a2, %a2, 5; setp.ne.s32 %q, %a0, %a2; @%q trap;";
    int lost = 0;
    for (seed = 0; seed < 8; seed++) {
        char output[8192];
        bool wrong = run_statements(statements, output, sizeof output) != 0;
        if (wrong && seed < 2) fail_msg("seed %llu: %s", (unsigned long long)seed, output);
        lost += wrong;
    }
    seed = 1;
    assert_true(lost > 0);
}
