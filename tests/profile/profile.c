/* Profiles the kernels without a GPU: runs each operation (operations.c) on nvcc's PTX and prints what its kernels
 * count, beside the least that the door knows, as docs/KERNEL_PROFILE.md (make profile-kernels).
 *
 *   profile_kernels VERSION     of nvcc, for the head of the page */
#include "tests/profile/profile.h"

#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cards.h"
#include "kernels/cuda/emulate/emulate_control.h"
#include "tests/cuda/schedules.h"

enum { MOST_KERNELS = 64, MOST_CALLS = 256 };

/* The resources that can limit a kernel. */
enum { ISSUE, SPECIAL, TENSOR, SHARED, L2, DRAM, LIMITS };
static const char *const limit_names[LIMITS] = {"issue", "special", "tensor", "shared", "L2", "DRAM"};

static const struct {
    const char *card;
    DType type;
    int lanes; /* multiply-adds in f32 of a multiprocessor per clock */
} sections[] = {{"l4", DTYPE_BF16, 128}, {"l4", DTYPE_F32, 128}, {"t4", DTYPE_F16, 64}};
enum { SECTIONS = sizeof sections / sizeof *sections };

typedef struct {
    EmulateKernelCounts counts;
    double seconds[LIMITS];
    int limit;
} Kernel;

typedef struct {
    int op, order;
    const char *shape;
    double flops, bytes, floor, bound; /* the last two in seconds */
    Kernel *kernels;
    int n;
} Call;

static const char *shape; /* of the operations that are called next */
static const Card *card;
static int section, n_calls;
static Call calls[MOST_CALLS];

/* ---- counting ---- */

/* Computes how long each part of the card is busy with a kernel if nothing ever waits. A multiprocessor issues 4
 * instructions of warps per clock, has 16 lanes for exponentials and their kin, moves 128 bytes of shared memory and 64
 * bytes from or to L2; DRAM moves each sector once. */
static void find_limit(Kernel *k) {
    const EmulateKernelCounts *c = &k->counts;
    double multiprocessors = cuda_state(rig.cuda)->n_multiprocessors;
    double clock = card->f32 / (2 * multiprocessors * sections[section].lanes), per_clock = clock * multiprocessors;
    double instructions = 0;
    for (int i = 0; i < EMULATE_CLASSES; i++) instructions += (double)c->instructions[i];
    k->seconds[ISSUE] = instructions / (4 * per_clock);
    k->seconds[SPECIAL] = 2 * (double)c->instructions[EMULATE_SPECIAL] / per_clock;
    k->seconds[TENSOR] = (double)c->matrix_flops / (sections[section].type == DTYPE_F32 ? card->tf32 : card->half);
    k->seconds[SHARED] = (double)c->shared_wavefronts / per_clock;
    k->seconds[L2] = 32 * (double)(c->loaded_sectors + c->stored_sectors) / (64 * per_clock);
    k->seconds[DRAM] = 32 * (double)(c->distinct_loaded + c->distinct_stored) / card->bandwidth;
    for (int i = 0; i < LIMITS; i++)
        if (k->seconds[i] > k->seconds[k->limit]) k->limit = i;
}

static int longest_first(const void *a, const void *b) {
    const Kernel *x = a, *y = b;
    double s = x->seconds[x->limit], t = y->seconds[y->limit];
    return s != t ? (s < t) - (s > t) : strcmp(x->counts.kernel, y->counts.kernel);
}

/* Device.stopwatch: called before each operation with NULL, and after it with the seconds of its counter. */
static void watch(Device *device, double *seconds) {
    static EmulateKernelCounts counts[MOST_KERNELS];
    if (!seconds) {
        emulate_count_kernels(true);
        return;
    }
    OpCounter *counter = (OpCounter *)(void *)((char *)seconds - offsetof(OpCounter, seconds));
    int n = emulate_kernel_counts(counts, MOST_KERNELS);
    bool multiplies = false;
    emulate_count_kernels(false);
    if (n_calls == MOST_CALLS || n == MOST_KERNELS) die("profile: too many calls or kernels");
    Call *call = &calls[n_calls++];
    *call = (Call){.op = (int)(counter - device->counters), .order = n_calls, .shape = shape, .n = n};
    call->flops = counter->flops;
    call->bytes = counter->bytes;
    call->kernels = xcalloc((size_t)n, sizeof *call->kernels);
    for (int i = 0; i < n; i++) {
        Kernel *k = &call->kernels[i];
        k->counts = counts[i];
        multiplies |= counts[i].matrix_flops > 0;
        find_limit(k);
    }
    qsort(call->kernels, (size_t)n, sizeof *call->kernels, longest_first); /* so that the sum has the same bits */
    for (int i = 0; i < n; i++) {
        const Kernel *k = &call->kernels[i];
        call->bound += k->seconds[k->limit] + (double)k->counts.launches * card->launch;
    }
    double peak = !multiplies ? card->f32 : sections[section].type == DTYPE_F32 ? card->tf32 : card->half;
    call->floor = fmax(call->bytes / card->bandwidth, call->flops / peak) + card->launch;
    *counter = (OpCounter){0};
}

static void run_section(void) {
    setenv("EMULATE_CARD", sections[section].card, 1);
    DType type = sections[section].type;
    card = card_of_key(sections[section].card);
    rig = rig_open(type);
    rig.cuda->tf32 = type == DTYPE_F32;
    rig.cuda->profile = true;
    rig.cuda->stopwatch = watch;
    emulate_set_seed(0);
    emulate_set_workers(1);
    if (getenv("DRAWS")) rig.draws = (uint64_t)atoi(getenv("DRAWS"));
    n_calls = 0;
    for (int i = 0; i < n_profile_calls; i++) {
        const ProfileCall *c = &profile_calls[i];
        if (c->types == (type == DTYPE_F32 ? ONLY_16_BITS : ONLY_F32)) continue;
        shape = c->shape;
        for (const char *name = c->operations; *name; name += strspn(name, " ")) {
            size_t length = strcspn(name, " ");
            op_on_card(op_of_name(name, length), type, c->changes);
            rig_clear(&rig);
            name += length;
        }
    }
    rig_close(&rig);
}

/* Dies if an operation has not been called. */
static void require_all_operations(void) {
    for (int op = 0; op < OP_COUNT; op++) {
        bool called = sections[section].type != DTYPE_F32 && !op_has_16_bits(op);
        for (int i = 0; i < n_calls; i++) called |= calls[i].op == op;
        if (!called) die("profile: %s is not called: add it to tests/profile/operations.c", op_names[op]);
    }
}

/* ---- the page ---- */

static double ratio(const Call *call) { return call->bound / call->floor; }

static int worst_first(const void *a, const void *b) {
    const Call *x = a, *y = b;
    return ratio(x) != ratio(y) ? (ratio(x) < ratio(y)) - (ratio(x) > ratio(y)) : x->order - y->order;
}

/* Writes the kernel's name without its parameters, namespaces and the letters that all names share. */
static void short_name(const char *from, char *to) {
    static const char *const shorter[][2] = {
        {"void ", ""}, {"(anonymous namespace)::", ""}, {"__nv_bfloat16", "bf16"}, {"__half", "f16"}};
    for (int depth = 0; *from && (*from != '(' || depth || !strncmp(from, "(anonymous", 10));) {
        bool found = false;
        depth += (*from == '<') - (*from == '>');
        for (int i = 0; i < 4 && !found; i++) {
            size_t length = strlen(shorter[i][0]);
            if ((found = !strncmp(from, shorter[i][0], length))) {
                from += length;
                to = stpcpy(to, shorter[i][1]);
            }
        }
        if (!found) *to++ = *from++;
    }
    *to = 0;
}

static double over(int64_t a, int64_t b) { return b ? (double)a / (double)b : 0; }

/* Prints a share that is 1 where nothing is wasted, and nothing where there is nothing. */
static void print_ratio(double x) {
    if (x > 0)
        printf(" %.2f |", x);
    else
        printf(" |");
}

static void print_kernel(const Call *call, const Kernel *k) {
    const EmulateKernelCounts *c = &k->counts;
    char name[sizeof c->kernel + 16];
    int64_t instructions = 0, requested = c->loaded_sectors + c->stored_sectors;
    short_name(c->kernel, name);
    for (int i = 0; i < EMULATE_CLASSES; i++) instructions += c->instructions[i];
    printf("| %.2f | %s%s%s | `%s` | %.1f %s |", ratio(call), op_names[call->op], *call->shape ? ", " : "", call->shape,
           name, 1e6 * k->seconds[k->limit], limit_names[k->limit]);
    printf(" %lld | %lld |", (long long)c->launches, (long long)c->blocks);
    printf(" %lld |", (long long)((instructions + 500) / 1000));
    print_ratio(over(instructions, c->instructions[EMULATE_PRODUCT]));
    printf(" %.2f |", 32e-6 * (double)(c->distinct_loaded + c->distinct_stored));
    print_ratio(over(requested, c->distinct_loaded + c->distinct_stored));
    print_ratio(over(32 * requested, c->global_bytes));
    print_ratio(over(c->shared_wavefronts, c->shared_least));
    printf(" %lld |", (long long)c->instructions[EMULATE_BARRIER]);
    printf(" %.1f |", over(c->lanes, instructions));
    printf(" %lld |\n", (long long)c->divergent_branches);
}

static void print_section(void) {
    DType type = sections[section].type;
    qsort(calls, (size_t)n_calls, sizeof *calls, worst_first);
    printf("\n## %s on %s\n\n", type == DTYPE_F32 ? "f32, products in TF32," : dtype_name(type), card->name);
    printf("| × least | operation | kernel | µs | launches | blocks | instructions | per mma | MB | again | unused | "
           "conflicts | barriers | lanes | divided |\n|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < n_calls; i++)
        for (int k = 0; k < calls[i].n; k++) print_kernel(&calls[i], &calls[i].kernels[k]);
}

// clang-format off
static const char head[] =
    "# Profile of the kernels\n"
    "\n"
    "Written by `make profile-kernels` with nvcc %s; `make test-deep` fails if the same nvcc counts otherwise.\n"
    "\n"
    "No GPU ran for this page. The PTX that nvcc makes of the kernels was executed and counted\n"
    "([how](HOW_TO.md#debug-a-kernel-without-a-gpu)), each operation at the widths of the trainings that need it, with few\n"
    "rows (`tests/profile/operations.c`), and the counts were divided by the rates of the card. There is a line for each\n"
    "kernel; operations that are farthest from the least possible come first: few rows make launches, and what each\n"
    "multiprocessor does once, weigh more than in a training. `tests/cuda/test_counts.c` compares counts with those by hand.\n"
    "\n"
    "| column | meaning |\n"
    "|---|---|\n"
    "| × least | of the operation: the sum of its kernels' µs and of %.1f µs a launch, over the least possible: its FLOPs at "
    "the card's stated rate or its bytes, each tensor once, at the stated bandwidth, whichever takes longer, and one launch; "
    "below 1 where an operation does not need all of a tensor, or has in a cache what it reads twice |\n"
    "| µs | how long the busiest part of the card is busy with the kernel, and which part that is. issue: a multiprocessor "
    "issues 4 instructions of warps a clock; special: it has 16 lanes for exponentials, roots and their kin; tensor: the "
    "stated rate; shared: 128 bytes of shared memory a clock; L2: 64 bytes a clock from or to it; DRAM: each sector once a "
    "launch, at the stated bandwidth. Nothing ever waits here, so that real times are longer, except where an earlier launch "
    "has left the numbers in L2 |\n"
    "| instructions | of warps, in thousands, as PTX has them: ptxas joins some and adds others |\n"
    "| per mma | instructions per instruction of the tensor cores |\n"
    "| MB | sectors of 32 bytes of global memory, each counted once a launch, loads and stores apart |\n"
    "| again | how often each of these sectors is asked for |\n"
    "| unused | bytes of the sectors asked for over the bytes that lanes ask for: 1 is best, less where lanes ask for the "
    "same bytes |\n"
    "| conflicts | wavefronts of shared memory over the least possible for their bytes: 1 is best |\n"
    "| barriers | of warps |\n"
    "| lanes | that take part in an instruction, in the mean, of 32 |\n"
    "| divided | branches that divide a warp |\n";
// clang-format on

/* Starts a process that profiles one section; returns its page. */
static FILE *start_section(pid_t *process) {
    FILE *page = tmpfile();
    if (!page || (*process = fork()) < 0) die("profile: cannot start a process");
    if (*process) return page;
    stdout = page;
    run_section();
    require_all_operations();
    print_section();
    exit(fflush(stdout) != 0);
}

/* Returns whether the process has profiled its section; it has said why if not. */
static bool print_page(FILE *page, pid_t process) {
    int status;
    bool is_complete = waitpid(process, &status, 0) >= 0 && status == 0;
    rewind(page);
    for (int c; is_complete && (c = getc(page)) != EOF;) putchar(c);
    fclose(page);
    return is_complete;
}

int main(int argc, char **argv) {
    FILE *pages[SECTIONS];
    pid_t processes[SECTIONS];
    bool is_complete = true;
    if (argc != 2 || !*argv[1]) {
        fprintf(stderr, "profile_kernels: expected the version of nvcc as the only argument\n");
        return 2;
    }
    for (section = 0; section < SECTIONS; section++) pages[section] = start_section(&processes[section]);
    printf(head, argv[1], 1e6 * card_of_key(sections[0].card)->launch);
    for (int s = 0; s < SECTIONS; s++) is_complete &= print_page(pages[s], processes[s]);
    return !is_complete;
}
