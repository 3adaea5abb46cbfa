# make            builds the programs            make demo   installs what is missing, then trains a small TTS GPT
#                                                make demo-psd, make demo-cv   the same for spectra, for cells
# make GPU=l4     for one card: configs/gpu      make gpu-test, make gpu-bench, make gpu-bundle
# make test       installs, builds, tests        make test-deep (the long ones), test-asan, test-race, test-mutations,
#                                                make fuzz, make lint, make bench-cpu, make bench-estimate,
#                                                make readme, make estimates
# Objects go to build/NAME/, one folder a kind of build; outside build/ only the programs and demo/work are written.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
BUILD ?= build/release
TRAINERS = train_gpt train_psd train_cv
PROGRAMS = $(TRAINERS) prepare_tts decode_tts prepare_psd prepare_flim
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

WARNINGS = -Wall -Wextra -Wpedantic -Werror
# Against the consequences of faults that are not found yet; builds under sanitizers have better.
OPTIMIZE = -O3 -g -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
COMMON = $(WARNINGS) $(OPTIMIZE) -fPIE -I. -D_GNU_SOURCE -fopenmp -MMD -MP $(EXTRA)
CFLAGS = -std=c11 -fno-math-errno $(COMMON)
CXXFLAGS = -std=c++17 $(COMMON)
LINK = $(CC) -fopenmp -pie -Wl,-z,relro,-z,now $(EXTRA)
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

LIBRARY = $(wildcard base/*.c base/*.cc kernels/*.c kernels/cpu/device.c model/*.c data/*.c data/*.cc train/*.c)
CUDA_SOURCES = $(wildcard kernels/cuda/*.c kernels/cuda/*.cu)
LIBRARY_OBJECTS = $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(LIBRARY)))) \
                  $(CPU_SETS:%=$(BUILD)/kernels/cpu/operations_%.o)
TESTS_OF_CPU := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
DEEP_TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/deep_*.c))
FUZZERS = $(patsubst tests/%.c,%,$(wildcard tests/fuzz_*.c))

# With a CUDA toolkit train_gpt gets the cuda device too, for the cards that GPU names: a preset of configs/gpu, native (the
# card that is there), all, or none. The runtime is linked statically, and the driver is asked for when a GPU is wanted, so
# that the same program starts on a machine without either. `make test` fetches a toolkit where none is.
CUDA_FETCHED = build/cuda/nvidia/cu13
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc) \
               $(shell command -v nvcc 2>/dev/null) $(abspath $(wildcard $(CUDA_FETCHED)/bin/nvcc))))
NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
CHOSEN_GPU := $(GPU)
GPU ?= $(if $(NVCC),all,none)
PRESETS = $(patsubst configs/gpu/%.mk,%,$(wildcard configs/gpu/*.mk))
BUILT_FOR = cpu$(if $(CHOSEN_GPU),, (no CUDA toolkit was found: install one or set CUDA_HOME for a GPU))
ON_GPU = $(BUILD)
ifneq ($(GPU),none)
ON_GPU = $(BUILD)/gpu_$(GPU)
$(if $(NVCC),,$(error GPU=$(GPU) needs nvcc, which is not there: install a CUDA toolkit or set CUDA_HOME))
KNOWN_ARCHITECTURES := $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch))
ifneq ($(filter $(GPU),$(PRESETS)),)
include configs/gpu/$(GPU).mk
GPU_DEFINES = -DCUDA_HALF_$(GPU_HALF) -DGPU_BATCH=$(GPU_BATCH) -DGPU_ACCUMULATION=$(GPU_ACCUMULATION) -DGPU_WORKERS=$(GPU_WORKERS) -DGPU_NAME=\"$(GPU)\"
PRESET_DEFAULTS = $(ON_GPU)/train/train_options.o # comes before the archive that has the general one
else ifeq ($(GPU),all) # the architectures of all presets, as far as the toolkit knows them
GPU_ARCHITECTURES := $(filter $(KNOWN_ARCHITECTURES),$(sort $(shell sed -n 's/^GPU_ARCHITECTURES = //p' configs/gpu/*.mk)))
GPU_DEFINES = -DCUDA_HALF_BY_CARD
else ifneq ($(GPU),native)
$(error GPU=$(GPU) is no preset: choose one of $(PRESETS), native, all, none)
endif
ifneq ($(filter-out $(KNOWN_ARCHITECTURES),$(GPU_ARCHITECTURES)),)
$(error GPU=$(GPU) needs sm_$(GPU_ARCHITECTURES), which the toolkit in $(CUDA_HOME) does not know: CUDA 12 is the last with 70)
endif
comma = ,
NEWEST = $(lastword $(GPU_ARCHITECTURES))
NVCC_TARGETS = $(if $(filter native,$(GPU)),-arch=native,$(foreach a,$(GPU_ARCHITECTURES),-gencode arch=compute_$a$(comma)code=sm_$a) \
                 -gencode arch=compute_$(NEWEST)$(comma)code=compute_$(NEWEST))
NVCC_FLAGS = -std=c++17 -O3 -lineinfo -I. $(GPU_DEFINES) -Xcompiler -fPIE,-Wall,-Wextra,-Werror -Werror all-warnings -Xfatbin -compress-all
CUDA_OBJECTS = $(patsubst %,$(ON_GPU)/%.o,$(basename $(CUDA_SOURCES)))
CUDA_DEVICE = $(ON_GPU)/libcuda_device.a
TAKE_CUDA = -Wl,-u,cuda_device_open # from the first archive that has it, before kernels/cuda_absent.c
CUDA_LIBS = $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib $(CUDA_HOME)/lib/* /usr/lib/*))) -ldl -lrt
BUILT_FOR = cpu and cuda: $(if $(filter native,$(GPU)),the card that is here,$(GPU_ARCHITECTURES:%=sm_%))
endif

# All cores, unless make was told how many.
all:
	@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) $(PROGRAMS)
	@echo "built $(PROGRAMS) for $(BUILT_FOR)"

$(PROGRAMS): %: $(ON_GPU)/% FORCE
	@cmp -s $< $@ || cp --remove-destination $< $@

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

ifneq ($(GPU),none)
# What ptxas says of each kernel stays beside the object: tools/check_spills.sh reads it.
$(ON_GPU)/%.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) $(NVCC_TARGETS) -Xptxas -v -MMD -MP -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }

$(ON_GPU)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_FLAGS) $(GPU_DEFINES) -c $< -o $@

$(CUDA_DEVICE): $(CUDA_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(ON_GPU)/tests/cuda/test_%: $(ON_GPU)/tests/cuda/test_%.o $(BUILD)/tests/helpers.o $(CUDA_DEVICE) $(BUILD)/libtrain.a
	$(LINK) $^ -o $@ -lcmocka $(CUDA_LIBS) $(LDLIBS)
endif

# What docs/ESTIMATES.md is written by.
$(BUILD)/tools/estimates: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/estimates*.c)) $(BUILD)/libtrain.a
	$(LINK) $^ -o $@ $(LDLIBS)
$(BUILD)/tests/test_estimates: $(BUILD)/tools/estimates_text.o

# Programs of more than one file.
$(ON_GPU)/train_psd $(BUILD)/emulated/train_psd: $(patsubst %.c,$(BUILD)/%.o,$(wildcard train_psd_*.c))
$(ON_GPU)/train_cv $(BUILD)/emulated/train_cv: $(patsubst %.c,$(BUILD)/%.o,$(wildcard train_cv_*.c))
$(TRAINERS:%=$(ON_GPU)/%) $(ON_GPU)/tests/bench_step: $(ON_GPU)/%: $(BUILD)/%.o $(PRESET_DEFAULTS) $(CUDA_DEVICE) $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(LINK) $(TAKE_CUDA) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(CUDA_LIBS) $(LDLIBS)

$(patsubst %,$(ON_GPU)/%,$(filter-out $(TRAINERS),$(PROGRAMS))): $(ON_GPU)/%: $(BUILD)/%.o $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(LINK) $^ -o $@ $(LDLIBS)

# The cuda device for the CPU: the kernels by the C++ compiler, the CUDA runtime by kernels/cuda/emulate. For tests.
# It needs CUDA's headers only; where no toolkit is, `make test` gets them.
CUDA_INCLUDE = $(firstword $(wildcard $(addsuffix /cuda_runtime_api.h,$(CUDA_HOME)/include /usr/include $(CUDA_FETCHED)/include)))
EMULATED = $(BUILD)/emulated
EMULATOR_OBJECTS = $(patsubst %.cpp,$(EMULATED)/%.o,$(wildcard kernels/cuda/emulate/*.cpp))
EMULATED_OBJECTS = $(patsubst %,$(EMULATED)/%.o,$(basename $(CUDA_SOURCES))) $(EMULATOR_OBJECTS)
CUDA_TEST_NAMES = $(filter-out %/test_operations,$(basename $(wildcard tests/cuda/test_*.c))) tests/cuda/test_operations
CUDA_TESTS = $(addprefix $(BUILD)/,$(basename $(wildcard tests/cuda/test_*.cu)) $(CUDA_TEST_NAMES))
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
  $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard base/*.c base/*.cc)))
	$(LINK) $^ -o $@ -lcmocka $(LDLIBS)

# The programs themselves on the emulated device.
$(BUILD)/tests/cuda/test_program: | $(BUILD)/emulated/train_gpt
$(BUILD)/tests/cuda/test_program_psd: | $(BUILD)/emulated/train_psd
$(BUILD)/tests/cuda/test_program_cv: | $(BUILD)/emulated/train_cv
$(BUILD)/emulated/train_%: $(BUILD)/train_%.o $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(LINK) -Wl,-u,cuda_device_open $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LDLIBS)

$(BUILD)/tests/cuda/test_%: $(BUILD)/tests/cuda/test_%.o $(BUILD)/tests/helpers.o $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(LINK) $^ -o $@ -lcmocka $(LDLIBS)

# Every crash point, and some of them.
$(BUILD)/tests/deep_crash $(BUILD)/tests/test_crash: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/crash/*.c))
$(TESTS_OF_CPU) $(DEEP_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/helpers.o $(BUILD)/libtrain.a
	$(LINK) $(filter %.o,$^) $(filter %.a,$^) -o $@ -lcmocka $(LDLIBS)

packages-%:
	@tools/install_packages.sh $(subst +, ,$*)

# The oldest toolkit that is supported, which is also one that knows V100, builds its programs.
cuda-11.8: packages-build
	@tools/install_cuda_11.sh build/cuda-11.8
	@for card in v100 t4; do $(MAKE) --no-print-directory -j$(shell nproc) CUDA_HOME=$(CURDIR)/build/cuda-11.8/usr GPU=$$card \
	    BUILD=build/with_cuda-11.8 build/with_cuda-11.8/gpu_$$card/train_gpt || exit; done
	@echo "CUDA 11.8 builds train_gpt for v100 and t4"

# Installation first, then a second make: what is built depends on what has just been installed.
demo: packages-build+demo
	@$(MAKE) --no-print-directory all GPU=$(or $(CHOSEN_GPU),none)
	@demo/demo.sh

demo-psd: packages-build
	@$(MAKE) --no-print-directory all GPU=$(or $(CHOSEN_GPU),none)
	@demo/psd.sh

demo-cv: packages-build
	@$(MAKE) --no-print-directory all GPU=$(or $(CHOSEN_GPU),none)
	@demo/cv.sh

cuda-toolkit:
	@$(if $(NVCC),,tools/install_cuda.sh $(firstword $(subst /nvidia, ,$(CUDA_FETCHED))))

test: packages-build+test
	@$(MAKE) --no-print-directory check

# What takes longer than a newcomer waits: the GPU's code on the emulator, programs killed at every operation on files,
# every reader fuzzed for some seconds, kernels compiled for every card, planted bugs.
test-deep: packages-build+test+fuzz cuda-toolkit
	@$(MAKE) --no-print-directory check-emulated
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(DEEP_TESTS) $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) tools/run_tests.sh $(DEEP_TESTS)
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none run-t4-tests
	@$(MAKE) --no-print-directory check-gpu
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=5
	@tests/cuda/mutations.sh --some

check:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(TESTS_OF_CPU) $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tools/estimates
	@BUILD=$(BUILD) tools/run_tests.sh $(TESTS_OF_CPU)
	@BUILD=$(BUILD) tools/readme_options.sh --check
	@BUILD=$(BUILD) $(BUILD)/tools/estimates >$(BUILD)/ESTIMATES.md
	@diff docs/ESTIMATES.md $(BUILD)/ESTIMATES.md || \
	    { echo "docs/ESTIMATES.md (<) is not what $(BUILD)/tools/estimates writes (>): run make estimates" >&2; exit 1; }

# Every kernel compiles for every card of configs/gpu that the toolkit knows, and ptxas keeps it in registers; the programs
# of one preset have its defaults, and train where there is no CUDA.
check-gpu:
ifneq ($(NVCC),)
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=all $(TRAINERS:%=$(BUILD)/gpu_all/%)
	@tests/cuda/spills.sh $(BUILD)/gpu_all
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=l4 $(TRAINERS:%=$(BUILD)/gpu_l4/%)
	@BUILD=$(BUILD)/gpu_l4 GPU_PRESET=l4 tools/run_tests.sh $(BUILD)/tests/test_devices
else
	@echo "SKIPPED: the compilation of kernels for GPUs: there is no nvcc"
endif

# The GPU's code, and the programs with it, on the emulated card.
check-emulated:
ifneq ($(CUDA_INCLUDE),)
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(CUDA_TESTS)
	@BUILD=$(BUILD) tools/run_tests.sh $(CUDA_TESTS)
else
	@echo "SKIPPED: the tests of the emulated GPU: there are no headers of CUDA"
endif

# The same tests under AddressSanitizer and UndefinedBehaviorSanitizer.
test-asan: packages-build+test cuda-toolkit
	@$(MAKE) --no-print-directory check check-emulated BUILD=build/asan OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized"

# The tests of the kernels under the emulator's checker of races, uninitialised and out-of-bounds accesses: the compiler
# reports every access, and kernels/cuda/emulate/check.cpp listens instead of its own library.
test-race: packages-build+test cuda-toolkit
	@$(MAKE) --no-print-directory -j$(shell nproc) run-cuda-tests GPU=none BUILD=build/race OPTIMIZE="-O2 -g" \
	    KERNEL_EXTRA="-fsanitize=thread -Wno-tsan" EMULATOR_EXTRA=-DEMULATE_CHECK

# The tests of the tests: every bug of tests/cuda/mutations.txt, planted in the kernels, must make one fail. `make
# test-deep` plants some of them.
test-mutations: packages-build+test cuda-toolkit
	@tests/cuda/mutations.sh

# Of whole programs one run is enough, under three schedules: their other tests launch the same kernels.
PROGRAM_TESTS = %/test_program %/test_program_psd %/test_program_cv

# The tests of the kernels on an emulated card without bf16 and TF32, with as many multiprocessors as large ones have.
run-t4-tests: $(CUDA_TESTS)
	@EMULATE_CARD="Tesla T4" EMULATE_CAPABILITY=75 EMULATE_MULTIPROCESSORS=132 BUILD=$(BUILD) tools/run_tests.sh \
	    $(filter-out $(PROGRAM_TESTS) %/test_cublas %/test_cudnn,$(CUDA_TESTS))
run-cuda-tests: $(CUDA_TESTS)
	@BUILD=$(BUILD) tools/run_tests.sh $(filter-out $(PROGRAM_TESTS),$(CUDA_TESTS))
	@BUILD=$(BUILD) TEST_FILTER=every_schedule_gives_the_same_bits tools/run_tests.sh $(filter $(PROGRAM_TESTS),$(CUDA_TESTS))

# Every reader of untrusted bytes under libFuzzer, FUZZ_SECONDS each.
FUZZ_SECONDS ?= 60
fuzz: packages-build+fuzz
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none BUILD=build/fuzz CC=clang CXX=clang++ OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" $(FUZZERS:%=build/fuzz/%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/run_fuzzers.sh $(FUZZERS:%=build/fuzz/%)

build/fuzz/fuzz_%: build/fuzz/tests/fuzz_%.o build/fuzz/libtrain.a
	$(CXX) -fopenmp -fsanitize=fuzzer,address,undefined $^ -o $@ $(LDLIBS)

SOURCES = $(shell git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.cu')
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
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(BUILD)/tests/bench_step
	@$(PYTHON) tests/reference/bench_cpu.py $(BUILD)/tests/bench_step

# The time of steps on this CPU, predicted by --estimate and measured.
bench-estimate: packages-build
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(TRAINERS:%=$(BUILD)/%) $(BUILD)/tests/bench_step
	@$(PYTHON) tests/reference/bench_estimate.py $(BUILD)

# The tests of the cuda device on the card that is there, and its benchmark against PyTorch. gpu-bundle packs both for a
# machine that has neither the libraries nor a compiler.
# The wrappers of inline PTX come first: what fails there makes the rest meaningless.
# test_cublas and test_cudnn are for libraries of their own making.
GPU_TEST_NAMES = tests/cuda/test_wrappers $(filter-out %/test_cublas %/test_cudnn,$(CUDA_TEST_NAMES))
GPU_TESTS = $(addprefix $(ON_GPU)/,$(GPU_TEST_NAMES))

gpu-programs: $(GPU_TESTS) $(ON_GPU)/tests/bench_step $(TRAINERS:%=$(ON_GPU)/%)
gpu-test:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=native gpu-programs
	@BUILD=$(BUILD) TRAIN_PROGRAM=$(BUILD)/gpu_native/train_gpt TRAIN_PSD_PROGRAM=$(BUILD)/gpu_native/train_psd \
	    TRAIN_CV_PROGRAM=$(BUILD)/gpu_native/train_cv \
	    tools/run_tests.sh \
	    $(addprefix $(BUILD)/gpu_native/,$(GPU_TEST_NAMES))
	@CUDA_HOME=$(CUDA_HOME) tools/gpu_sanitize.sh \
	    $(addprefix $(BUILD)/gpu_native/,$(filter-out $(PROGRAM_TESTS),$(GPU_TEST_NAMES)))
gpu-bench:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=native gpu-programs
	@$(PYTHON) tests/reference/bench_gpu.py $(BUILD)/gpu_native/tests/bench_step benchmarks
gpu-bundle: gpu-programs
	@ON_GPU=$(ON_GPU) TESTS="$(GPU_TESTS)" tools/gpu_bundle.sh

# The option tables of README.md, from the programs' own.
readme:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) tools/readme_options.sh

# The guides' claims beside what arithmetic gives: docs/ESTIMATES.md.
estimates:
	@$(MAKE) --no-print-directory -j$(shell nproc) GPU=none $(TRAINERS:%=$(BUILD)/%) $(BUILD)/tools/estimates
	@BUILD=$(BUILD) $(BUILD)/tools/estimates >docs/ESTIMATES.md.tmp && mv docs/ESTIMATES.md.tmp docs/ESTIMATES.md || \
	    { rm -f docs/ESTIMATES.md.tmp; exit 1; }

clean:
	rm -rf build $(PROGRAMS) demo/work

FORCE:
.PHONY: all demo demo-psd demo-cv test test-deep check check-emulated check-gpu cuda-11.8 cuda-toolkit test-asan test-race test-mutations run-cuda-tests run-t4-tests fuzz lint bench-cpu bench-estimate gpu-programs gpu-test gpu-bench gpu-bundle readme estimates clean FORCE
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
