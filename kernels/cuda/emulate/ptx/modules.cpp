/* The functions that nvcc's host code calls: it registers its modules, kernels and variables before main, and launches
 * kernels by the address of a function that stands for them. A module is the "fat binary" that nvcc has put into the
 * program, with the PTX for one architecture or several; the card gets the newest that it can run, as from the driver.
 * Programs for GPUs have theirs compressed, and not for all cards: with EMULATE_PTX the folder of a build, where nvcc
 * has kept the PTX, modules are read from there.
 *
 * EMULATE_PTX_FILTER is a command through which the PTX of each module goes before it is read: tests plant mistakes
 * with it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

/* The format of fat binaries, as nvcc 11 to 13 write it. */
struct FatBinary {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of the entries, behind the header */
};
struct FatEntry {
    uint16_t kind, version; /* kind 1: PTX */
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, unknown;
    uint16_t minor, major;
    uint32_t architecture;
};
constexpr uint32_t WRAPPER = 0x466243b1, FAT_BINARY = 0xBA55ED50;
constexpr uint16_t PTX = 1;

struct Registered { /* a kernel or a variable */
    void **module;
    std::string name;
};
struct Loaded {
    const FatBinary *binary;
    std::vector<std::string> kernels;
    std::unique_ptr<Module> modules[128]; /* by architecture */
};

static std::mutex lock;

/* The kernels or variables that have been registered, by the address of the host's function or variable: before main,
 * in the order of linking. */
typedef std::unordered_map<const void *, Registered> Registry;
static Registry &kernels() {
    static Registry registry;
    return registry;
}
static Registry &variables() {
    static Registry registry;
    return registry;
}

static std::string filtered(const std::string &text, const char *command) {
    char name[] = "/tmp/ptx_XXXXXX";
    int file = mkstemp(name);
    std::string result;
    char piece[1 << 16];
    if (file < 0 || write(file, text.data(), text.size()) != (ssize_t)text.size()) fail("cannot write %s", name);
    close(file);
    FILE *out = popen(("( " + std::string(command) + " ) <" + name).c_str(), "r");
    if (!out) fail("cannot run %s", command);
    for (size_t n; (n = fread(piece, 1, sizeof piece, out));) result.append(piece, n);
    if (pclose(out)) fail("EMULATE_PTX_FILTER: %s has failed", command);
    unlink(name);
    return result;
}

/* Returns the newest PTX in the binary that the card can run and that is not compressed; NULL: there is none. */
static const FatEntry *embedded_ptx(const FatBinary *binary) {
    const char *at = reinterpret_cast<const char *>(binary) + binary->header_bytes, *end = at + binary->bytes;
    const FatEntry *best = NULL;
    for (; at < end;
         at += reinterpret_cast<const FatEntry *>(at)->header_bytes + reinterpret_cast<const FatEntry *>(at)->bytes) {
        const FatEntry *entry = reinterpret_cast<const FatEntry *>(at);
        bool fits = entry->kind == PTX && !entry->compressed_bytes && (int)entry->architecture <= card_capability();
        if (fits && (!best || entry->architecture > best->architecture)) best = entry;
    }
    return best;
}

/* Returns the PTX for an architecture, of those kept in the folder, of the module that has these kernels; of a module
 * without kernels nothing is needed. */
static std::string kept_text(const char *folder, int architecture, const std::vector<std::string> &kernels) {
    if (kernels.empty()) return "";
    static std::map<int, std::vector<std::string>> kept;
    std::vector<std::string> &texts = kept[architecture];
    std::string ending = ".compute_" + std::to_string(architecture) + ".ptx";
    std::error_code problem;
    if (texts.empty())
        for (const auto &entry : std::filesystem::recursive_directory_iterator(folder, problem)) {
            std::string path = entry.path().string();
            if (path.size() < ending.size() || path.compare(path.size() - ending.size(), ending.size(), ending))
                continue;
            std::ifstream file(path);
            texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        }
    const std::string *found = NULL;
    for (const std::string &text : texts) {
        size_t entries = 0;
        for (size_t at = 0; (at = text.find(".entry ", at)) != std::string::npos; at++) entries++;
        bool fits = entries == kernels.size() && std::all_of(kernels.begin(), kernels.end(), [&](auto &x) {
                        return text.find(x + "(") != std::string::npos;
                    });
        if (fits && found) fail("two files of PTX in %s (EMULATE_PTX) have %s", folder, kernels[0].c_str());
        if (fits) found = &text;
    }
    if (!found) fail("no PTX for %d in %s (EMULATE_PTX) has %s", architecture, folder, kernels[0].c_str());
    return *found;
}

/* Returns the module of a program for the card. */
static Module &module_of(void **handle) {
    Loaded &loaded = *reinterpret_cast<Loaded *>(handle);
    const FatEntry *embedded = embedded_ptx(loaded.binary);
    const char *kept = getenv("EMULATE_PTX"), *filter = getenv("EMULATE_PTX_FILTER");
    int newest = card_capability() >= 80 ? 80 : card_capability(); /* as mk/cuda.mk has PTX compiled */
    int architecture = embedded ? (int)embedded->architecture : newest;
    if (!embedded && !kept)
        fail("the program has no PTX for a card of capability %d, or it is compressed: set EMULATE_PTX to the folder "
             "of its build",
             card_capability());
    std::unique_ptr<Module> &module = loaded.modules[architecture & 127];
    if (!module) {
        module.reset(new Module());
        if (embedded) {
            const char *text = reinterpret_cast<const char *>(embedded) + embedded->header_bytes;
            module->text.assign(text, strnlen(text, embedded->bytes));
        } else {
            module->text = kept_text(kept, architecture, loaded.kernels);
        }
        if (filter) module->text = filtered(module->text, filter);
        scan(*module);
    }
    return *module;
}

/* All modules of the program. */
static std::vector<void **> &handles() {
    static std::vector<void **> all;
    return all;
}

/* Checks what a driver checks of a launch, and queues it. */
static cudaError_t launch_kernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                 cudaStream_t stream) {
    const Function *f;
    {
        std::lock_guard<std::mutex> hold(lock);
        auto at = kernels().find(kernel);
        if (at == kernels().end()) return set_error(cudaErrorInvalidDeviceFunction);
        f = function_of(module_of(at->second.module), at->second.name);
    }
    std::shared_ptr<char> bytes(static_cast<char *>(calloc(1, f->parameter_bytes + 1)), free);
    for (size_t n = 0; n < f->parameters.size(); n++) {
        const Variable &p = f->parameters[n];
        memcpy(bytes.get() + (p.address - PARAMETER_WINDOW), arguments[n], p.bytes);
    }
    size_t static_bytes = 0;
    for (const Variable &v : f->shared)
        static_bytes = (static_bytes + v.alignment - 1) / v.alignment * v.alignment + v.bytes;
    if (f->max_threads && block.x * block.y * block.z > (unsigned)f->max_threads)
        return capture_error(stream, cudaErrorInvalidValue);
    return launch({kernel, grid, block, shared_bytes, 0, NULL, bytes, f->parameter_bytes, run_block, f, static_bytes},
                  stream);
}

/* Returns the memory of a variable of the device from the host's variable of its name. */
static void *memory_of(const void *variable) {
    std::lock_guard<std::mutex> hold(lock);
    auto at = variables().find(variable);
    if (at == variables().end()) return NULL;
    Module &module = module_of(at->second.module);
    auto v = module.variables.find(at->second.name);
    if (v == module.variables.end()) fail("the PTX has no variable %s", at->second.name.c_str());
    return reinterpret_cast<void *>(v->second.address);
}

} // namespace ptx
} // namespace emulate

using namespace emulate::ptx;

int emulate_read_ptx(void) {
    int n = 0;
    for (void **handle : handles()) {
        Module &module = module_of(handle);
        for (const auto &function : module.functions) function_of(module, function.first);
        n += (int)module.functions.size();
    }
    return n;
}

struct Configuration {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};
static thread_local std::vector<Configuration> configurations;

extern "C" {

void **__cudaRegisterFatBinary(void *wrapper) {
    struct {
        uint32_t magic, version;
        const FatBinary *binary;
    } w;
    memcpy(&w, wrapper, sizeof w);
    if (w.magic != WRAPPER || w.binary->magic != FAT_BINARY) emulate::fail("a module in a format that is not known");
    Loaded *loaded = new Loaded();
    loaded->binary = w.binary;
    emulate::symbol_memory = memory_of;
    handles().push_back(reinterpret_cast<void **>(loaded));
    return handles().back();
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **module, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *) {
    kernels()[host] = {module, name};
    reinterpret_cast<Loaded *>(module)->kernels.push_back(name);
}
void __cudaRegisterVar(void **module, char *host, char *, const char *name, int, size_t, int, int) {
    variables()[host] = {module, name};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
    configurations.push_back({grid, block, shared_bytes, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
    const Configuration &c = configurations.back();
    *grid = c.grid;
    *block = c.block;
    *shared_bytes = c.shared_bytes;
    *static_cast<void **>(stream) = c.stream;
    configurations.pop_back();
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t bytes,
                             cudaStream_t stream) {
    return launch_kernel(kernel, grid, block, arguments, bytes, stream);
}
#if CUDART_VERSION >= 12000 /* a kernel's handle is here the address that stands for it */
cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *kernel) {
    *handle = reinterpret_cast<cudaKernel_t>(const_cast<void *>(kernel));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void **arguments, size_t bytes,
                               cudaStream_t stream) {
    return launch_kernel(handle, grid, block, arguments, bytes, stream);
}
#endif
}
