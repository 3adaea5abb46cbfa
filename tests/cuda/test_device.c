/* The cuda device's own work, on a GPU or on the emulator: copies beside the operations, and their order. */
#include "kernels/cards.h"
#include "kernels/cuda/libraries/library.h"
#include "kernels/cuda/startup.h"
#include "kernels/device_open.h"
#include "tests/cuda/rig.h"
#include "tests/test.h"

/* The emulator's functions; NULL in a program for a real GPU. */
__attribute__((weak)) void emulate_fail_graphs(int graphs, int launches);

enum { ROUNDS = 200, STEPS = 7, MOST = 3001 };

/* Stages batches of changing sizes as the training loop does: into two alternating buffers, each read by an operation,
 * and the host memory is reused at once. */
TEST(staged_batches_are_unchanged) {
    for (uint64_t round = 0; round < ROUNDS; round++) {
        Rig rig = rig_open(DTYPE_F32);
        if (emulate_set_seed) emulate_set_seed(round); /* streams mistake each other's order in few of them */
        Pair buffer = pair_poisoned(&rig, DTYPE_F32, MOST, 0), read[STEPS];
        float *batch = xmalloc(MOST * sizeof *batch);
        for (int step = 0; step < STEPS; step++)
            read[step] = pair_poisoned(&rig, DTYPE_F32, 1 + (MOST - 1) * (step % 3 + 1) / 3, 0);
        for (int step = 0; step < STEPS; step++) { /* nothing here waits for the device, but what must */
            int64_t n = tensor_numel(read[step].cuda);
            for (int64_t i = 0; i < n; i++) batch[i] = ((float *)read[step].cpu.data)[i] = (float)(1000 * step + i);
            void *to = buffer.cuda.data;
            rig.cuda->stage(rig.cuda, to, batch, sizeof *batch, batch + 1, (size_t)(n - 1) * sizeof *batch);
            memset(batch, 0, (size_t)n * sizeof *batch);
            cast(rig.cuda, read[step].cuda, tensor_1d(to, DTYPE_F32, n));
        }
        for (int step = 0; step < STEPS; step++) expect_pair(&rig, "a staged batch", read[step], 0);
        free(batch);
        rig_close(&rig);
    }
}

/* A download waits for what was queued before it; memory is new, or cleared, when the next operation reads it. */
TEST(queued_work_is_seen_in_its_order) {
    for (uint64_t round = 0; round < ROUNDS; round++) {
        Rig rig = rig_open(DTYPE_F32);
        Pair x = pair_normal(&rig, DTYPE_F32, MOST, 0, 1), y = pair_poisoned(&rig, DTYPE_F32, MOST, 0);
        size_t bytes = tensor_bytes(x.cuda);
        float *fresh = rig.cuda->allocate(rig.cuda, bytes);
        cast(rig.cuda, y.cuda, tensor_1d(fresh, DTYPE_F32, MOST));
        memset(y.cpu.data, 0, bytes);
        expect_pair(&rig, "new memory", y, 0);
        cast(rig.cuda, y.cuda, x.cuda);
        rig.cuda->clear(rig.cuda, x.cuda.data, bytes);
        cast(rig.cpu, y.cpu, x.cpu);
        expect_pair(&rig, "what was there before it was cleared", y, 0);
        memset(x.cpu.data, 0, bytes);
        expect_pair(&rig, "cleared memory", x, 0);
        rig.cuda->release(rig.cuda, fresh, bytes);
        rig_close(&rig);
    }
}

/* ---- recorded passes ---- */

typedef struct {
    Rig *rig;
    Pair to, from;
} Copy;

static void copy(void *argument) {
    const Copy *c = argument;
    cast(c->rig->cuda, c->to.cuda, c->from.cuda);
}

/* Operations are then called as if there were no graphs, each counted once. */
TEST(operations_run_without_a_graph_that_does_not_fit) {
    if (!emulate_fail_graphs) skip();
    for (int at_launch = 0; at_launch < 2; at_launch++) {
        Rig rig = rig_open(DTYPE_F32);
        Copy work = {&rig, pair_poisoned(&rig, DTYPE_F32, MOST, 0), pair_poisoned(&rig, DTYPE_F32, MOST, 0)};
        for (int call = 0; call < 6; call++) {
            emulate_fail_graphs(call == 2 && !at_launch, call == 3 && at_launch);
            for (int i = 0; i < MOST; i++) ((float *)work.from.cpu.data)[i] = (float)(i * call);
            pair_upload(&rig, work.from);
            rig.cuda->repeat(rig.cuda, "key", 4, false, copy, &work);
            memcpy(work.to.cpu.data, work.from.cpu.data, MOST * sizeof(float));
            expect_pair(&rig, "a call that is repeated", work.to, 0);
            assert_int_equal(rig.cuda->counters[OP_cast].calls, call + 1);
        }
        rig_close(&rig);
    }
}

/* Graphs leave half of the headroom, but for one; the calls that get none compute the same. */
TEST(graphs_leave_memory_for_what_comes_later) {
    if (!emulate_fail_graphs) skip();
    enum { KEYS = 12, GRAPH = 20 << 20 };
    char *graph = xformat("%d", GRAPH), *memory;
    Rig rig = rig_open(DTYPE_F32);
    Copy work = {&rig, pair_poisoned(&rig, DTYPE_F32, MOST, 0), pair_normal(&rig, DTYPE_F32, MOST, 0, 1)};
    size_t total, before, half = rig.cuda->headroom / 2;
    copy(&work); /* its code is there */
    cudaMemGetInfo(&before, &total);
    memory = xformat("%zu", total - before + rig.cuda->headroom);
    setenv("EMULATE_MEMORY", memory, 1);
    setenv("EMULATE_GRAPH", graph, 1);
    memcpy(work.to.cpu.data, work.from.cpu.data, MOST * sizeof(float));
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        for (int call = 0; call < 4 * KEYS; call++) {
            char key = (char)('a' + call % KEYS);
            rig.cuda->clear(rig.cuda, work.to.cuda.data, tensor_bytes(work.to.cuda));
            rig.cuda->repeat(rig.cuda, &key, 1, false, copy, &work);
            expect_pair(&rig, "a call that is repeated", work.to, 0);
            assert_true(rig.cuda->available(rig.cuda) + GRAPH >= half);
        }
        assert_true(rig.cuda->available(rig.cuda) < half); /* as many as may be */
        rig.cuda->forget(rig.cuda);
        assert_int_equal(rig.cuda->available(rig.cuda), rig.cuda->headroom);
    }
    assert_int_equal(rig.cuda->counters[OP_cast].calls, 1 + 2 * 4 * KEYS);
    unsetenv("EMULATE_MEMORY");
    unsetenv("EMULATE_GRAPH");
    rig_close(&rig);
    free(memory);
    free(graph);
}

/* ---- memory ---- */

static size_t available(Rig *rig) { return rig->cuda->available(rig->cuda); }

static void activate(void *argument) {
    const Copy *c = argument;
    Tensor to = tensor_2d(c->to.cuda.data, DTYPE_F32, 1, MOST), from = tensor_2d(c->from.cuda.data, DTYPE_F32, 1, MOST);
    gelu_forward(c->rig->cuda, to, from, GELU_TANH);
}

/* Expects as much memory before the first call of an operation as after: its kernel was loaded when it was measured. */
TEST(measured_operations_are_loaded) {
    if (!emulate_fail_graphs) skip();
    setenv("EMULATE_CODE", "1000000", 1);
    Rig rig = rig_open(DTYPE_F32);
    Copy work = {&rig, pair_poisoned(&rig, DTYPE_F32, MOST, 0), pair_poisoned(&rig, DTYPE_F32, MOST, 0)};
    size_t before = available(&rig);
    rig.cuda->measure(rig.cuda, activate, &work);
    size_t measured = available(&rig);
    activate(&work);
    rig.cuda->synchronize(rig.cuda);
    assert_int_equal(before - measured, 1000000);
    assert_int_equal(available(&rig), measured);
    rig_close(&rig);
    unsetenv("EMULATE_CODE");
}

typedef struct {
    const char *word, *key;
} CardOf;

/* Assumed: more kernels than a program uses. */
enum { KERNELS = 200 };

static void open_as_estimated(void *argument) {
    const CardOf *card = argument;
    static char kernels[KERNELS];
    struct cudaFuncAttributes attributes;
    size_t free_bytes, total;
    setenv("EMULATE_CARD", card->word, 1);
    Device *device = cuda_device_open(0);
    for (int i = 0; i < KERNELS; i++) cuda_check(cudaFuncGetAttributes(&attributes, &kernels[i]), "loading a kernel");
    cuda_check(cudaMemGetInfo(&free_bytes, &total), "asking");
    double estimated = card_available(card_of_key(card->key)), there = (double)(free_bytes - device->headroom);
    printf("%s: %.2f GB are estimated, %.2f GB there\n", card->key, estimated * 1e-9, there * 1e-9);
    if (total - free_bytes < (size_t)512 << 20) die("nothing is taken");
    if (estimated > there || estimated < 0.97 * there) die("not so");
    device_close(device);
}

/* --estimate knows no more memory than a run finds, whose context and kernels take their part; nor much less. */
TEST(a_card_has_the_memory_that_is_estimated) {
    CardOf cards[] = {{"t4", "t4"}, {"l4", "l4"}, {"a100", "a100-40"}, {"h100", "h100"}};
    int n;
    if (!emulate_fail_graphs) skip();
    for (int i = 0; i < 4; i++) {
        char text[1024];
        if (i == 0 && cuda_architectures(&n)[0] > 750) continue; /* no code for a T4 */
        int status = run_function(text, sizeof text, open_as_estimated, &cards[i]);
        if (status) fail_msg("exit status %d: %s", status, text);
        print_message("%s", text);
    }
}

/* ---- cards and versions ---- */

TEST(a_card_has_a_uuid_as_nvidia_smi_prints_it) {
    static const char form[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    char product[64], uuid[48];
    Device *device = cuda_device_open(0);
    cuda_describe_card(0, product, uuid);
    assert_string_equal(product, device->product);
    device_close(device);
    assert_int_equal(strlen(uuid), strlen(form));
    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'x')
            assert_non_null(strchr("0123456789abcdef", uuid[i]));
        else
            assert_int_equal(uuid[i], form[i]);
    cuda_describe_card(99, product, uuid);
    assert_string_equal(uuid, "");
}

/* A card that the program has no code for is refused with what to build, and is no reason not to train on the CPU. */
TEST(a_card_without_code_is_refused_when_it_is_opened) {
    char for_t4[128];
    int n;
    snprintf(for_t4, sizeof for_t4, "for the card that is here (Tesla T4, sm_75), only for sm_%d",
             cuda_architectures(&n)[0] / 10);
    const struct {
        const char *card, *capability, *built_for, *word;
    } cases[] = {
        {"Tesla T4", "75", "89", for_t4},
        {"Tesla T4", "75", "89", ": build it with make GPU=all, or on this machine with make GPU=native"},
        {"Tesla V100-SXM2-16GB", "70", "75 80 89", "(Tesla V100-SXM2-16GB, sm_70)"},
        {"Tesla V100-SXM2-16GB", "70", "75 80 89",
         CUDART_VERSION >= 13000 ? "use a program of make release" : "build it with make GPU=all"},
        {"Tesla P100-PCIE-16GB", "60", "75 80 89", "such a card is not supported; sm_70 is the oldest"},
        {"NVIDIA A10", "86", "89", NULL},     /* PTX for 8.0 */
        {"NVIDIA A10", "86", "80 89", NULL},  /* code of its generation that is no newer */
        {"NVIDIA H100", "90", "80 89", NULL}, /* PTX of the newest */
    };
    if (!emulate_fail_graphs) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why;
        setenv("EMULATE_CARD", cases[i].card, 1);
        setenv("EMULATE_CAPABILITY", cases[i].capability, 1);
        setenv("EMULATE_BUILT_FOR", cases[i].built_for, 1);
        Device *device = device_open("auto", 1, false, &why);
        assert_string_equal(device->name, cases[i].word ? "cpu" : "cuda");
        if (cases[i].word) assert_contains(why, cases[i].word);
        if (!cases[i].word) assert_null(why);
        device_close(device);
    }
    unsetenv("EMULATE_CARD");
    unsetenv("EMULATE_CAPABILITY");
    unsetenv("EMULATE_BUILT_FOR");
}

TEST(versions_of_libraries_are_as_their_makers_write_them) {
    static const struct {
        size_t number;
        const char *text;
    } versions[] = {{10202, "10.2.2"}, {111103, "11.11.3"}, {120805, "12.8.5"}, {130205, "13.2.5"},
                    {8907, "8.9.7"},   {90100, "9.1.0"},    {91902, "9.19.2"}};
    char text[LIBRARY_VERSION];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        assert_string_equal(library_version(versions[i].number, text), versions[i].text);
}
