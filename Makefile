# make            builds the programs            make demo   installs what is missing, then trains a small TTS GPT
# make test       installs, builds, all tests    make test-asan, make test-race, make fuzz, make lint, make bench-cpu, make readme
# Objects go to build/NAME/, one folder a kind of build; outside build/ only the programs and demo/work are written.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
BUILD ?= build/release
PROGRAMS = train_gpt prepare_tts decode_tts
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

WARNINGS = -Wall -Wextra -Wpedantic -Werror
OPTIMIZE = -O3 -g
COMMON = $(WARNINGS) $(OPTIMIZE) -I. -D_GNU_SOURCE -fopenmp -MMD -MP $(EXTRA)
CFLAGS = -std=c11 -fno-math-errno $(COMMON)
CXXFLAGS = -std=c++17 $(COMMON)
LDLIBS = -ldnnl -lyaml -ljansson -lzip -lsndfile -lsamplerate -lfftw3f -lsentencepiece -lsentencepiece_train \
         -lunistring -lcrypto -lstdc++ -lm -lpthread

# The CPU's operations are compiled once for each instruction set, and the best one is taken at run time.
ifeq ($(shell uname -m),x86_64)
CPU_SETS = avx512 avx2 sse4
CPU_FLAGS_avx512 = -march=x86-64-v4 -mprefer-vector-width=512
CPU_FLAGS_avx2 = -march=x86-64-v3
CPU_FLAGS_sse4 = -march=x86-64-v2
else
CPU_SETS = baseline
endif

LIBRARY = $(wildcard base/*.c kernels/*.c kernels/cpu/device.c model/*.c data/*.c data/*.cc train/*.c)
LIBRARY_OBJECTS = $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(LIBRARY)))) \
                  $(CPU_SETS:%=$(BUILD)/kernels/cpu/operations_%.o)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
FUZZERS = $(patsubst tests/%.c,%,$(wildcard tests/fuzz_*.c))

all: $(PROGRAMS)

$(PROGRAMS): %: $(BUILD)/%
	@cp $< $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c $< -o $@

$(BUILD)/kernels/cpu/operations_%.o: kernels/cpu/operations.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -ffp-contract=fast $(CPU_FLAGS_$*) -DCPU_TABLE=cpu_operations_$* -c $< -o $@

# The revision is written into checkpoints: recompile the one file that names it when it changes.
$(BUILD)/revision: FORCE
	@mkdir -p $(@D)
	@echo $(REVISION) | cmp -s - $@ || echo $(REVISION) > $@
$(BUILD)/train/prepare.o: CFLAGS += -DGIT_REVISION='"$(REVISION)"'
$(BUILD)/train/prepare.o: $(BUILD)/revision

$(BUILD)/libtrain.a: $(LIBRARY_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

# With a CUDA toolkit the programs get the cuda device too, for the cards that GPU names: a preset of configs/gpu, native
# (the card that is there), all, or none. The runtime is linked statically, and the driver is asked for when a GPU is
# wanted, so that the same program starts on a machine without either.
CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda /usr/lib/cuda /opt/cuda))
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
GPU ?= none
PRESETS = $(patsubst configs/gpu/%.mk,%,$(wildcard configs/gpu/*.mk))
ifneq ($(filter $(GPU),$(PRESETS)),)
include configs/gpu/$(GPU).mk
else ifeq ($(GPU),all)
GPU_ARCHITECTURES = $(if $(shell $(NVCC) --list-gpu-arch 2>/dev/null | grep compute_70),70) 75 80 86 89 90
else ifeq ($(filter $(GPU),native none),)
$(error GPU=$(GPU) is no preset: choose one of $(PRESETS), native, all, none)
endif
NVCC_TARGETS = $(if $(filter native,$(GPU)),-arch=native,$(foreach a,$(GPU_ARCHITECTURES),-gencode \
                 arch=compute_$a$(comma)code=sm_$a) -gencode arch=compute_$(lastword $(GPU_ARCHITECTURES))$(comma)code=compute_$(lastword \
                 $(GPU_ARCHITECTURES)))
comma = ,
GPU_DEFINES = $(if $(GPU_HALF),-DCUDA_HALF_$(GPU_HALF))
NVCC_FLAGS = -std=c++17 -O3 -lineinfo -I. $(GPU_DEFINES) -Xcompiler -Wall,-Wextra -Xcudafe --display_error_number
ON_GPU = $(BUILD)/gpu_$(GPU)
CUDA_SOURCES = $(wildcard kernels/cuda/*.c kernels/cuda/*.cu)
CUDA_OBJECTS = $(patsubst %,$(ON_GPU)/%.o,$(basename $(CUDA_SOURCES)))
ifneq ($(and $(NVCC),$(filter-out none,$(GPU))),)
CUDA_DEVICE = $(ON_GPU)/libcuda_device.a
TAKE_CUDA = -Wl,-u,cuda_device_open # from the first archive that has it, before kernels/cuda_absent.c
CUDA_LIBS = $(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a /usr/lib/*/libcudart_static.a)) -ldl -lrt
endif

$(ON_GPU)/%.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) $(NVCC_TARGETS) -MMD -c $< -o $@

$(ON_GPU)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_FLAGS) $(GPU_DEFINES) -c $< -o $@

$(ON_GPU)/libcuda_device.a: $(CUDA_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tests/bench_step: $(BUILD)/%: $(BUILD)/%.o $(CUDA_DEVICE) $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) $(TAKE_CUDA) $^ -o $@ $(CUDA_LIBS) $(LDLIBS)

# The cuda device for the CPU: the kernels by the C++ compiler, the CUDA runtime by kernels/cuda/emulate. For tests.
# It needs CUDA's headers only; where no toolkit is, `make test` gets them.
CUDA_HEADERS = build/cuda
CUDA_INCLUDE = $(firstword $(wildcard $(addsuffix /cuda_runtime_api.h,$(CUDA_HOME)/include /usr/include \
                 $(CUDA_HEADERS)/nvidia/cu13/include)))
EMULATED = $(BUILD)/emulated
EMULATOR_OBJECTS = $(patsubst %.cpp,$(EMULATED)/%.o,$(wildcard kernels/cuda/emulate/*.cpp))
EMULATED_OBJECTS = $(patsubst %,$(EMULATED)/%.o,$(basename $(CUDA_SOURCES))) $(EMULATOR_OBJECTS)
CUDA_TESTS = $(patsubst tests/%,$(BUILD)/tests/%,$(basename $(wildcard tests/cuda/test_*.c tests/cuda/test_*.cu)))
ifneq ($(CUDA_INCLUDE),)
TESTS += $(CUDA_TESTS)
endif
CUDA_FLAGS = $(addprefix -isystem ,$(patsubst /usr/include/,,$(dir $(CUDA_INCLUDE))))

$(EMULATED)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_FLAGS) -c $< -o $@

# Kernels read registers as other types than they were written, as CUDA allows.
$(EMULATED)/%.o: %.cu
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(CUDA_FLAGS) -fno-strict-aliasing -Wno-unknown-pragmas $(KERNEL_EXTRA) -x c++ -c $< -o $@

$(EMULATED)/kernels/cuda/emulate/%.o: kernels/cuda/emulate/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(CUDA_FLAGS) -fno-strict-aliasing $(EMULATOR_EXTRA) -c $< -o $@

$(BUILD)/libemulated.a: $(EMULATED_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/tests/cuda/%.o: CFLAGS += $(CUDA_FLAGS)
$(BUILD)/tests/cuda/%.o: tests/cuda/%.cu
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(CUDA_FLAGS) -fno-strict-aliasing -Wno-unknown-pragmas $(KERNEL_EXTRA) -x c++ -c $< -o $@

# Tests in CUDA bring their own kernels.
$(patsubst tests/%.cu,$(BUILD)/tests/%,$(wildcard tests/cuda/test_*.cu)): %: %.o $(BUILD)/tests/helpers.o $(EMULATOR_OBJECTS) \
  $(patsubst %.c,$(BUILD)/%.o,$(wildcard base/*.c))
	$(CC) -fopenmp $(EXTRA) $^ -o $@ -lcmocka -lstdc++ -lm

# The program itself on the emulated device.
$(BUILD)/tests/cuda/test_program: | $(BUILD)/emulated/train_gpt
$(BUILD)/emulated/train_gpt: $(BUILD)/train_gpt.o $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) -Wl,-u,cuda_device_open $^ -o $@ $(LDLIBS)

$(BUILD)/tests/cuda/test_%: $(BUILD)/tests/cuda/test_%.o $(BUILD)/tests/helpers.o $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) $^ -o $@ -lcmocka $(LDLIBS)

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/helpers.o $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) $^ -o $@ -lcmocka $(LDLIBS)

packages-%:
	@tools/install_packages.sh $(subst +, ,$*)

# Installation first, then a second make: what is built depends on what has just been installed.
demo: packages-build+demo
	@$(MAKE) --no-print-directory all
	@demo/demo.sh

cuda-headers:
	@$(if $(CUDA_INCLUDE),,tools/install_cuda_headers.sh $(CUDA_HEADERS))

test: packages-build+test cuda-headers
	@$(MAKE) --no-print-directory -j$(shell nproc) tests
	@$(MAKE) --no-print-directory run-tests
	@BUILD=$(BUILD) tools/readme_options.sh --check

tests: $(TESTS) $(PROGRAMS:%=$(BUILD)/%)

run-tests:
	@BUILD=$(BUILD) tools/run_tests.sh $(TESTS)

# The same tests under AddressSanitizer and UndefinedBehaviorSanitizer.
test-asan:
	@$(MAKE) --no-print-directory test BUILD=build/asan OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized"

# The tests of the kernels under the emulator's checker of races, uninitialised and out-of-bounds accesses: the compiler
# reports every access, and kernels/cuda/emulate/check.cpp listens instead of its own library.
test-race: packages-build+test cuda-headers
	@$(MAKE) --no-print-directory -j$(shell nproc) run-cuda-tests BUILD=build/race OPTIMIZE="-O2 -g" \
	    KERNEL_EXTRA="-fsanitize=thread -Wno-tsan" EMULATOR_EXTRA=-DEMULATE_CHECK

run-cuda-tests: $(CUDA_TESTS)
	@BUILD=$(BUILD) tools/run_tests.sh $(CUDA_TESTS)

# Every reader of untrusted bytes under libFuzzer, FUZZ_SECONDS each.
FUZZ_SECONDS ?= 60
fuzz: packages-build+fuzz
	@$(MAKE) --no-print-directory -j$(shell nproc) BUILD=build/fuzz CC=clang CXX=clang++ OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" $(FUZZERS:%=build/fuzz/%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/run_fuzzers.sh $(FUZZERS:%=build/fuzz/%)

build/fuzz/fuzz_%: build/fuzz/tests/fuzz_%.o build/fuzz/libtrain.a
	$(CXX) -fopenmp -fsanitize=fuzzer,address,undefined $^ -o $@ $(LDLIBS)

SOURCES = $(shell git ls-files '*.c' '*.h' '*.cc')
lint: packages-build+lint
	clang-format --dry-run -Werror $(SOURCES)
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem -I. $(filter %.c,$(filter-out tests/%,$(SOURCES)))
	printf '%s\n' $(filter %.c,$(filter-out tests/% kernels/cpu/%,$(SOURCES))) | xargs -P $(shell nproc) -I FILE \
	    clang-tidy --quiet FILE -- -std=c11 -I. -D_GNU_SOURCE -fopenmp -DGIT_REVISION='""'
	shellcheck $(shell git ls-files '*.sh')

# One training step, ours and PyTorch's in one run: PYTHON must have torch.
PYTHON ?= python3
bench-cpu: packages-build
	@$(MAKE) --no-print-directory $(BUILD)/tests/bench_step
	@$(PYTHON) tests/reference/bench_cpu.py $(BUILD)/tests/bench_step

# The tests of the cuda device on the card that is there, and its benchmark against PyTorch. gpu-bundle packs both for a
# machine that has neither the libraries nor a compiler.
# The wrappers of inline PTX come first: what fails there makes the rest meaningless.
GPU_TEST_NAMES = tests/cuda/test_wrappers $(filter-out %/test_program,$(basename $(wildcard tests/cuda/test_*.c)))
GPU_TESTS = $(addprefix $(ON_GPU)/,$(GPU_TEST_NAMES))
$(ON_GPU)/tests/cuda/test_%: $(ON_GPU)/tests/cuda/test_%.o $(BUILD)/tests/helpers.o $(CUDA_DEVICE) $(BUILD)/libtrain.a
	$(CC) -fopenmp $^ -o $@ -lcmocka $(CUDA_LIBS) $(LDLIBS)

gpu-programs: $(GPU_TESTS) $(BUILD)/tests/bench_step $(BUILD)/train_gpt
gpu-test:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=native gpu-programs
	@BUILD=$(BUILD) tools/run_tests.sh $(addprefix $(BUILD)/gpu_native/,$(GPU_TEST_NAMES))
gpu-bench:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=native gpu-programs
	@$(PYTHON) tests/reference/bench_gpu.py $(BUILD)/tests/bench_step benchmarks
gpu-bundle: gpu-programs
	@BUILD=$(BUILD) ON_GPU=$(ON_GPU) tools/gpu_bundle.sh

# The option tables of README.md, from the programs' own.
readme: $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) tools/readme_options.sh

clean:
	rm -rf build $(PROGRAMS) demo/work

FORCE:
.PHONY: all demo test tests cuda-headers run-tests test-asan test-race run-cuda-tests fuzz lint bench-cpu gpu-programs gpu-test gpu-bench gpu-bundle readme clean FORCE
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
