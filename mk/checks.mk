# The parts of `make test`, `make test-kernels` and `make test-deep`, and the other checks and benchmarks.

tests-of-cpu: $(TESTS_OF_CPU) $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tools/estimates $(BUILD)/tools/tokenize
	@: # prints nothing where nothing is to be done
# Two at a time: most use one core most of the time.
check-programs:
	@$(MAKE) $(PARALLEL) GPU=none tests-of-cpu
	@JOBS=2 BUILD=$(BUILD) tools/run_tests.sh $(TESTS_OF_CPU)

# What the disk lacks is in tests/base/substitute/disk.c. Tests of locks, hard links, maps and odd names need them.
DISK_LACKS = links
test-poor-disk: packages-build+test ## the tests of the CPU on a disk without symbolic links (DISK_LACKS=links,locks,maps,...)
	@$(MAKE) $(PARALLEL) GPU=none tests-of-cpu
	@LD_PRELOAD=$(abspath $(POOR_DISK)) DISK_LACKS=$(DISK_LACKS) JOBS=2 BUILD=$(BUILD) tools/run_tests.sh $(TESTS_OF_CPU)

check: check-programs
	@$(MAKE) check-documents

# The walls between the rooms, the tables and estimates in the documents.
check-documents:
	@$(MAKE) $(PARALLEL) GPU=none tests-of-cpu
	@BUILD=$(BUILD) tools/check_walls.sh
	@BUILD=$(BUILD) tools/readme_options.sh --check
	@BUILD=$(BUILD) $(BUILD)/tools/estimates >$(BUILD)/ESTIMATES.md
	@diff docs/ESTIMATES.md $(BUILD)/ESTIMATES.md || \
	    { echo "docs/ESTIMATES.md (<) differs from the output of $(BUILD)/tools/estimates (>): run make estimates" >&2; exit 1; }

# Everything else must build and pass without one model: MODEL, or one that the hash of the commit chooses.
test-without-a-model: packages-build+test ## builds, tests all but one model (MODEL=gpt|slm|bert|psd|cv)
	@tools/take_away.sh $(MODEL)

# Runs the tests as on processors with fewer instructions: oneDNN's kernels and ours are limited alike. Bits that depend on
# a library's choice of kernels differ there first. Each set is for processors that have the instruction named first; those
# without AVX-512 use the set of AVX2 anyway.
INSTRUCTION_SETS = sse4_2:SSE41:sse4 avx512f:AVX2:avx2
# Those that compute; readers, files, estimates and reports do not depend on it.
SET_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/kernels/test_*.c tests/model/test_*.c tests/data/test_kmeans.c tests/train/test_loop.c \
    $(foreach t,model golden golden_steps evaluate predict* generate speak decode run indextts2 indextts2_real,tests/*/test_$t.c)))
check-instruction-sets: ## runs the CPU tests with the kernels of SSE4 and of AVX2
	@$(MAKE) $(PARALLEL) GPU=none $(SET_TESTS) $(PROGRAMS:%=$(BUILD)/%)
	@for set in $(INSTRUCTION_SETS); do \
	    flag=$${set%%:*} ours=$${set##*:} dnnl=$${set#*:} dnnl=$${dnnl%:*}; \
	    grep -qw "$$flag" /proc/cpuinfo || { echo "SKIPPED: the tests with $$dnnl: this processor has no more"; continue; }; \
	    echo "the CPU tests with $$dnnl:"; \
	    DNNL_MAX_CPU_ISA=$$dnnl TRAINC_CPU_SET=$$ours JOBS=2 BUILD=$(BUILD) tools/run_tests.sh $(SET_TESTS) || exit; \
	done

check-deep:
	@$(MAKE) $(PARALLEL) GPU=none $(DEEP_TESTS) $(BUILD)/tests/checkpoint/test_checkpoint $(PROGRAMS:%=$(BUILD)/%)
	@CRASH_STRIDE=1 JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(filter-out $(CRASH_TESTS),$(DEEP_TESTS)) $(BUILD)/tests/checkpoint/test_checkpoint
	@$(MAKE) check-crash CRASH_STRIDE=8 CRASH_TURN=$$((0x$$(tools/revision.sh | sed s/unknown/0/) % 24))

check-crash:
	@CRASH_STRIDE=$(CRASH_STRIDE) CRASH_TURN=$(CRASH_TURN) JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(CRASH_TESTS)

# Compiles every kernel for every card of configs/gpu that the toolkit supports and checks that ptxas spills no registers.
# Then links everything for one preset with these kernels, and checks that its programs have the defaults of the preset, train
# on a machine without CUDA, and say what is wrong with a driver. Kernels with one 16-bit type only are compiled as far as the
# C++ compiler sees them: the machine code of a preset is that of the build for all cards.
LINKED_PRESET = $(BUILD)/gpu_l4_linked
AS_LINKED = GPU=l4 $(BY_TESTED) ON_GPU=$(LINKED_PRESET) \
    CUDA_OBJECTS="$(patsubst %.c,$(LINKED_PRESET)/%.o,$(filter %.c,$(CUDA_SOURCES))) $(patsubst %.cu,$(BUILD)/gpu_all/%.o,$(filter %.cu,$(CUDA_SOURCES)))"
TESTS_OF_DEVICES = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/test_devices.c))
check-gpu: ## compiles every kernel for every card; needs the CUDA toolkit but no GPU
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=all $(BY_TESTED) $(PROGRAMS:%=$(BUILD)/gpu_all/%)
	@tests/cuda/spills.sh $(BUILD)/gpu_all
	@$(MAKE) $(PARALLEL) $(AS_LINKED) check-syntax gpu-programs
	@$(MAKE) $(PARALLEL) GPU=none $(TESTS_OF_DEVICES)
	@BUILD=$(LINKED_PRESET) GPU_PRESET=l4 tools/run_tests.sh $(TESTS_OF_DEVICES)
	@$(MAKE) $(BUILD)/tests/kernels/driver/libcuda.so.1
	@for test in $(wildcard tests/*/gpu_startup.sh); do \
	    PROGRAMS=$(abspath $(LINKED_PRESET)) DRIVER=$(abspath $(BUILD)/tests/kernels/driver) $$test || exit; \
	done
else
	@echo "SKIPPED: the compilation of kernels for GPUs: nvcc was not found"
endif

ifeq ($(ON_GPU),$(LINKED_PRESET))
# They have been compiled.
$(BUILD)/gpu_all/%.o: ; @:
endif
SYNTAX = $(patsubst %.cu,syntax/%,$(filter %.cu,$(CUDA_SOURCES)))
check-syntax: $(SYNTAX)
$(SYNTAX): syntax/%: %.cu
	$(call say,CXX,$< with $(GPU_HALF) only)$(CXX) $(CXXFLAGS) -MF /dev/null $(CUDA_FLAGS) $(GPU_DEFINES) -fno-strict-aliasing -Wno-unknown-pragmas -fsyntax-only -x c++ $<

# Compares the machine code of check-gpu with its PTX and with the budgets of its hot loops.
DISASSEMBLER = build/disassembler
check-sass: ## compares hot loops, as machine code, with their budgets; needs the CUDA toolkit but no GPU
ifneq ($(TESTED_NVCC),)
	@tools/install_disassembler.sh $(DISASSEMBLER)
	@[ ! -e $(DISASSEMBLER)/version ] || $(MAKE) $(PARALLEL) $(RELEASE_GPU) test-sass
else
	@echo "SKIPPED: the budgets of hot loops: nvcc was not found"
endif
test-sass: $(CUDA_DEVICE)
	@tests/cuda/sass.py $(SASS_OPTIONS) $(DISASSEMBLER)/nvdisasm $(ON_GPU) $(TESTED_VERSION)
sass-budgets: cuda-toolkit ## writes tests/cuda/sass_budgets.txt
	@$(RELEASED_TOOLKIT_ONLY)
	@$(MAKE) check-sass SASS_OPTIONS=--write

# $(call longest_first,TESTS,PATTERNS): the tests that match, which take longest, then the others. Most tests take one core.
longest_first = $(filter $2,$1) $(filter-out $2,$1)
LONGEST = %_step %/test_attention %/test_linear

# Runs the tests of kernels on the emulated card. Functions err as much as NVIDIA's documents allow, and tensor cores sum in
# their own order; only test_wrappers runs with exact ones, too.
AS_EMULATED = EMULATE_INEXACT=1 CHECK_SCHEDULES=2
check-emulated:
ifneq ($(CUDA_INCLUDE),)
	@$(MAKE) $(PARALLEL) GPU=none $(filter-out $(PROGRAM_TESTS),$(CUDA_TESTS)) $(NCCL_TESTS)
	@BUILD=$(BUILD) tools/run_tests.sh $(BUILD)/tests/cuda/test_wrappers $(NCCL_TESTS)
	@$(AS_EMULATED) JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(call longest_first,$(filter-out $(PROGRAM_TESTS),$(CUDA_TESTS)),$(LONGEST))
else
	@echo "SKIPPED: the tests on the emulated GPU: no CUDA headers were found"
endif

# Tests the programs on the emulated card.
check-emulated-programs:
ifneq ($(CUDA_INCLUDE),)
	@$(MAKE) $(PARALLEL) GPU=none $(filter $(PROGRAM_TESTS),$(CUDA_TESTS)) $(PROGRAMS:%=$(BUILD)/%)
	@CHECK_SCHEDULES=2 JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(call longest_first,$(filter $(PROGRAM_TESTS),$(CUDA_TESTS)),%_gpt)
else
	@echo "SKIPPED: the tests of programs on the emulated GPU: no CUDA headers were found"
endif

# Trains with every program on several ranks. Most of the time one of them computes.
check-nccl: packages-build+test cuda-toolkit ## ranks over NCCL, without it and without GPUs: trainings of all models on emulated cards, and ranks that end early
ifneq ($(CUDA_INCLUDE),)
	@$(MAKE) $(PARALLEL) GPU=none nccl-tests
	@JOBS=2 BUILD=$(BUILD) tools/run_tests.sh $(call longest_first,$(NCCL_TRAININGS),%/cv/nccl/test_ranks)
else
	@echo "SKIPPED: trainings on several emulated GPUs: no CUDA headers were found"
endif
nccl-tests: $(NCCL_TRAININGS)
	@: # prints nothing where nothing is to be done

check-two-hosts: packages-build+network ## trains on two hosts, network namespaces with a cable of 1 Gbit/s, which is then pulled; for root
ifneq ($(CUDA_INCLUDE),)
	@$(MAKE) $(PARALLEL) GPU=none $(EMULATED)/train_slm $(NCCL_STAND_IN)
	@PROGRAM=$(EMULATED)/train_slm TRAINC_NCCL=$(NCCL_STAND_IN) tests/nccl/two_hosts.sh
else
	@echo "SKIPPED: two hosts: no CUDA headers were found"
endif

# Trains with every program on two cards, whose multiprocessors and shared memory decide how work is divided: memory must be
# as planned on each, and the losses those of the CPU.
CARDS = t4 h100
check-cards: check-emulated-programs
ifneq ($(CUDA_INCLUDE),)
	@for card in $(CARDS); do \
	    for tests in 'memory_is_as_planned' '*match*_the_cpu'; do \
	        echo "programs on a card like $$card, $$tests:"; \
	        EMULATE_CARD=$$card TEST_FILTER="$$tests" JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh \
	            $(foreach p,$(PROGRAMS),$(filter %/test_program_$(p:train_%=%),$(CUDA_TESTS))) || exit; \
	    done; \
	done
else
	@echo "SKIPPED: programs on several emulated cards: no CUDA headers were found"
endif

# Plants some of the bugs of `make test-mutations`.
check-mutations:
ifneq ($(CUDA_INCLUDE),)
	@tests/cuda/mutations.sh --some
else
	@echo "SKIPPED: the bugs planted in the kernels: no CUDA headers were found"
endif

# Runs the kernel tests on the PTX that nvcc makes, as cards of 8.0 and later get it. check-ptx-t4: as a T4 gets it, with f16
# for bf16, in the objects of the programs for all cards, but for what only puts kernels together; the other cards' PTX is read.
# Whole steps run on that for 8.0 of these objects.
AS_PTX = CHECK_SCHEDULES=1
SHIPPED_TESTS = $(addprefix $(BUILD)/gpu_all/ptx/,tests/cuda/test_ptx tests/cuda/test_device $(filter %_step,$(PTX_TEST_NAMES)))
T4_TESTS = $(PTX)/tests/cuda/test_wrappers \
    $(addprefix $(BUILD)/gpu_all/ptx/,$(filter-out %_step %/test_loop %/test_ptx %/test_rates %/test_slm_generate %/test_operations,$(PTX_TEST_NAMES)))
check-ptx: ## runs the tests of the kernels on nvcc's PTX, without a GPU
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=none $(filter-out %_step,$(PTX_TESTS))
	@$(AS_PTX) JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(call longest_first,$(filter-out %_step,$(PTX_TESTS)),$(LONGEST))
else
	@echo "SKIPPED: the tests on nvcc's PTX: nvcc was not found"
endif
check-ptx-t4: ## the same as a T4 gets it
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=all $(BY_TESTED) $(SHIPPED_TESTS) $(T4_TESTS)
	@$(AS_SHIPPED) TEST_FILTER='every_function*' BUILD=$(BUILD) tools/run_tests.sh $(filter %_ptx,$(SHIPPED_TESTS))
	@$(AS_SHIPPED) TEST_FILTER='a_card_*' BUILD=$(BUILD) tools/run_tests.sh $(filter %_device,$(SHIPPED_TESTS))
	@$(AS_SHIPPED) $(AS_PTX) JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(filter %_step,$(SHIPPED_TESTS))
	@$(AS_SHIPPED) EMULATE_CARD=t4 EMULATE_MULTIPROCESSORS=132 $(AS_PTX) JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(call longest_first,$(T4_TESTS),$(LONGEST))
else
	@echo "SKIPPED: the tests on nvcc's PTX for a T4: nvcc was not found"
endif

# Plants each mistake in nvcc's PTX; a part of `make test-kernels`.
PTX_MUTATION_TESTS = $(shell tests/cuda/ptx_mutations.sh --tests)
test-ptx-mutations: ## plants each mistake of tests/cuda/ptx_mutations.txt in nvcc's PTX: a test must fail
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=none $(PTX_MUTATION_TESTS:%=$(PTX)/tests/cuda/%)
	@$(AS_PTX) BUILD=$(BUILD) CXX="$(CXX)" CUDA_FLAGS="$(CUDA_FLAGS)" tests/cuda/ptx_mutations.sh
else
	@echo "SKIPPED: the mistakes planted in nvcc's PTX: nvcc was not found"
endif

# Compares what the kernels compute, compiled for the CPU and as PTX, bit by bit.
BIT_TESTS = $(basename $(filter-out %/test_cudnn.c,$(shell grep -l check_output tests/cuda/test_*.c)))
check-bits: ## compares the bits of the kernels compiled for the CPU and of nvcc's PTX
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=none PTX=$(BUILD)/ptx_unfused PTX_EXTRA=-fmad=false PTX_ARCHITECTURES=80 \
	    $(BIT_TESTS:%=$(BUILD)/%) $(BIT_TESTS:%=$(BUILD)/ptx_unfused/%)
	@BUILD=$(BUILD) tests/cuda/compare_bits.sh $(BUILD) $(BUILD)/ptx_unfused $(BIT_TESTS)
else
	@echo "SKIPPED: the comparison of the kernels' bits: nvcc was not found"
endif

# Tables that are committed are of the toolkit of releases.
RELEASED_TOOLKIT_ONLY = [ $(TOOLKIT) = $(RELEASED_TOOLKIT) ] && [ -x build/cuda-$(TOOLKIT)/usr/bin/nvcc ] || \
    { echo "this table is of CUDA $(RELEASED_TOOLKIT): tools/install_cuda.sh $(RELEASED_TOOLKIT) build/cuda-$(RELEASED_TOOLKIT)" >&2; exit 1; }

# What the kernels of the programs for all cards count depends on nvcc's version, which is in the page.
PROFILE = docs/KERNEL_PROFILE.md
PROFILER = $(BUILD)/gpu_all/ptx/tests/profile_kernels
profile-kernels: packages-build+test cuda-toolkit ## writes docs/KERNEL_PROFILE.md: what the kernels count on nvcc's PTX
	@$(MAKE) write-profile
write-profile:
	@$(RELEASED_TOOLKIT_ONLY)
	@$(MAKE) $(PARALLEL) GPU=all $(BY_TESTED) $(PROFILER)
	@$(AS_SHIPPED) $(PROFILER) "$(TESTED_VERSION)" >$(PROFILE).tmp && mv $(PROFILE).tmp $(PROFILE) || { rm -f $(PROFILE).tmp; exit 1; }
	@echo $(PROFILE_HASH) >$(PROFILE_CHECKED)

# The counts depend on nothing but these sources. Their hash stands in a file, so that `make test-deep` counts only when they
# have changed.
PROFILE_SOURCES = $(sort $(wildcard kernels/*.[ch] kernels/cuda/* kernels/cuda/*/* kernels/cuda/emulate/ptx/* tests/profile/*.[ch] tests/cuda/*.[ch] tests/kernels/op_*.[ch] \
                  tests/helpers.[ch] base/*.[ch] configs/gpu/*.mk)) mk/cuda.mk mk/tests.mk
PROFILE_CHECKED = tests/profile/checked
PROFILE_HASH = $(call hash_of,$(filter %.c %.h %.cu %.cpp %.mk,$(PROFILE_SOURCES)))
check-profile:
ifeq ($(TESTED_NVCC),)
	@echo "SKIPPED: the profile of the kernels: nvcc was not found"
else
	@if grep -sqF "nvcc $(TESTED_VERSION)" $(PROFILE) && [ "$$(cat $(PROFILE_CHECKED))" = $(PROFILE_HASH) ]; then \
	    echo "$(PROFILE) is of these kernels"; \
	else $(MAKE) compare-profile; fi
endif
compare-profile:
	@$(MAKE) $(PARALLEL) GPU=all $(BY_TESTED) $(PROFILER)
	@$(AS_SHIPPED) $(PROFILER) "$(TESTED_VERSION)" >$(BUILD)/KERNEL_PROFILE.md
	@if ! grep -qF "nvcc $(TESTED_VERSION)" $(PROFILE); then \
	    echo "SKIPPED: the comparison with $(PROFILE), which is not of nvcc $(TESTED_VERSION)"; \
	else \
	    diff $(PROFILE) $(BUILD)/KERNEL_PROFILE.md || \
	        { echo "$(PROFILE) (<) differs from what the kernels count (>): run make profile-kernels, and say in the commit why" >&2; exit 1; }; \
	fi

# The functions of gpu.h, and kernels of each family.
PTX_SAMPLES = $(addprefix cuda/,\
              test_memory_kernels:layernorm test_memory_kernels:embedding test_step_kernels:adamw test_step_kernels:cross_entropy \
              test_linear:the_same_bits_every_time test_attention:heads_of_32 test_attention_terms:heads_of_32 \
              test_attention_cached:heads_of_every_size test_conv3d:with_runs test_stem:of_few_positions test_norm_activate:sums \
              test_convolution:* test_augment:* test_ops_forward:*) gpt/cuda/test_indextts2:*
check-ptx-samples:
ifneq ($(TESTED_NVCC),)
	@$(MAKE) $(PARALLEL) GPU=none $(PTX)/tests/cuda/test_wrappers $(sort $(foreach s,$(PTX_SAMPLES),$(PTX)/tests/$(firstword $(subst :, ,$s))))
	@BUILD=$(BUILD) tools/run_tests.sh $(PTX)/tests/cuda/test_wrappers
	@set -f; for sample in $(PTX_SAMPLES); do \
	    TEST_FILTER=$${sample#*:} BUILD=$(BUILD) tools/run_tests.sh $(PTX)/tests/$${sample%:*} >$(PTX)/sample.log || { cat $(PTX)/sample.log; exit 1; }; \
	    head -n 1 $(PTX)/sample.log; \
	done
else
	@echo "SKIPPED: samples of the tests on nvcc's PTX: nvcc was not found"
endif

test-asan: packages-build+test cuda-toolkit ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) check check-emulated check-emulated-programs BUILD=build/asan OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized"

# The compiler reports every memory access to kernels/cuda/emulate/check.cpp, which replaces the library of the sanitizer.
test-race: packages-build+test cuda-toolkit ## the tests of the kernels under a checker of races and of bad accesses
	@$(MAKE) $(PARALLEL) GPU=none check-race BUILD=build/race OPTIMIZE="-O2 -g" \
	    KERNEL_EXTRA="-fsanitize=thread -Wno-tsan" EMULATOR_EXTRA=-DEMULATE_CHECK
check-race: $(CUDA_TESTS)
	@JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(filter-out $(PROGRAM_TESTS),$(CUDA_TESTS))
	@BUILD=$(BUILD) TEST_FILTER=every_schedule_gives_the_same_bits tools/run_tests.sh $(filter $(PROGRAM_TESTS),$(CUDA_TESTS))

# `make test-deep` takes every fourth operation, with one fault each, from one on that the hash of the commit chooses.
test-crash: packages-build+test+mpi ## kills, and all other faults, at every file operation of every program
	@$(MAKE) $(PARALLEL) GPU=none $(CRASH_TESTS) $(PROGRAMS:%=$(BUILD)/%)
	@$(MAKE) check-crash CRASH_STRIDE=1 CRASH_TURN=0
	@RANKS_KILLS=8 TEST_FILTER=killed_ranks_lose_nothing $(MAKE) check-mpi-trainings

test-mutations: packages-build+test cuda-toolkit ## plants each bug of tests/cuda/mutations.txt: a test must fail
	@tests/cuda/mutations.sh

FUZZ_SECONDS ?= 60
# To optimize them takes clang two minutes, and readers hardly call them.
build/fuzz/kernels/cpu/operations_%.o: CFLAGS += -O0
fuzz: packages-build+fuzz ## every reader of files under libFuzzer, FUZZ_SECONDS (60) each
	@$(MAKE) $(PARALLEL) GPU=none BUILD=build/fuzz CC=clang CXX=clang++ OPTIMIZE="-O1 -g" \
	    EXTRA="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" $(FUZZERS:%=build/fuzz/%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) JOBS=$(CORES) tools/run_fuzzers.sh $(FUZZERS:%=build/fuzz/%)

FILES = $(shell tools/list_files.sh)
SOURCES = $(filter %.c %.h %.cc %.cpp %.cu,$(FILES))
lint: packages-build+lint ## clang-format, cppcheck, clang-tidy, shellcheck, how comments begin
	@grep -nE '(/\*|//) (What|Of|As|These|It)\b' $(SOURCES); [ $$? = 1 ] || { echo "these comments must begin with a verb or a noun" >&2; exit 1; }
	clang-format --dry-run -Werror $(SOURCES)
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem -I. $(filter %.c,$(filter-out tests/%,$(SOURCES)))
	printf '%s\n' $(filter %.c,$(filter-out tests/% kernels/cpu/%,$(SOURCES))) | xargs -P $(shell nproc) -I FILE \
	    clang-tidy --quiet FILE -- -std=c11 -I. -D_GNU_SOURCE -fopenmp -DGIT_REVISION='""' -DSENTENCEPIECE_VERSION='""'
	shellcheck $(filter %.sh,$(FILES))

ROOTS ?= build/roots
test-builds: ## builds with gcc 10 to 14, clang 14 and 19 in Debian 11, 12 and 13, which it fetches to ROOTS; for root
	@tools/test_builds.sh $(ROOTS)

# Builds with another toolkit than that of releases, and executes samples of its PTX as one of its cards. What 11.8 spills is
# not known.
CARD_11.8 = 70
CARD_13.0 = 80
cuda-11.8: ## builds with CUDA 11.8, which it fetches, and tests samples of its PTX
cuda-13.0: ## the same with CUDA 13.0, for Blackwell, too
cuda-11.8 cuda-13.0: cuda-%: packages-build+test
	@tools/install_cuda.sh $* build/cuda-$*
	@$(MAKE) TOOLKIT=$* other-toolkit
other-toolkit:
	@$(MAKE) $(PARALLEL) $(RELEASE_GPU) $(BUILD)/gpu_all/train_gpt
	@[ $(TOOLKIT) = 11.8 ] || { tests/cuda/spills.sh $(BUILD)/gpu_all && $(MAKE) check-sass; }
	@EMULATE_CAPABILITY=$(CARD_$(TOOLKIT)) $(MAKE) PTX_ARCHITECTURES=$(CARD_$(TOOLKIT)) check-ptx-samples

# Another toolkit than that of releases serves where that cannot be fetched: check-sass and check-profile say what they leave out.
cuda-toolkit:
	@tools/install_cuda.sh $(TOOLKIT) build/cuda-$(TOOLKIT) || { [ "$(TESTED_NVCC)" ] && \
	    echo "kernels are tested with CUDA $(TESTED_VERSION), which is installed"; } || tools/install_cuda.sh 13.0 build/cuda-13.0 || \
	    echo "SKIPPED: what needs a CUDA toolkit: install one, or set CUDA_HOME"

PYTHON ?= python3
bench-cpu: packages-build ## times training steps against PyTorch; PYTHON must have torch
	@$(MAKE) $(PARALLEL) GPU=none $(BUILD)/tests/bench_step
	@$(PYTHON) tests/reference/bench_cpu.py $(BUILD)/tests/bench_step

bench-estimate: packages-build ## compares step times on this CPU with what --estimate predicts
	@$(MAKE) $(PARALLEL) GPU=none $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tests/bench_step
	@$(PYTHON) tests/reference/bench_estimate.py $(BUILD)

gpu-programs: $(GPU_TESTS) $(ON_GPU)/tests/bench_step $(PROGRAMS:%=$(ON_GPU)/%)
gpu-test: packages-build+test ## the tests of the kernels on the GPU of this machine
	@$(MAKE) $(PARALLEL) GPU=native gpu-programs
	@BUILD=$(BUILD) GPU_PROGRAMS=$(BUILD)/gpu_native tools/run_tests.sh \
	    $(addprefix $(BUILD)/gpu_native/,$(GPU_TEST_NAMES))
	@CUDA_HOME=$(CUDA_HOME) tools/gpu_sanitize.sh \
	    $(addprefix $(BUILD)/gpu_native/,$(filter-out $(PROGRAM_TESTS),$(GPU_TEST_NAMES)))
gpu-bench: packages-build+test ## whole steps on the GPU of this machine, against PyTorch and against --estimate
	@$(MAKE) $(PARALLEL) GPU=native gpu-programs
	@$(PYTHON) tests/reference/bench_gpu.py $(BUILD)/gpu_native/tests/bench_step benchmarks
# The kit's script with programs that fail, hang and crash, and with those of the emulated card.
EMULATED_KIT = $(addprefix $(BUILD)/tests/,cuda/test_wrappers cuda/test_scratch psd/cuda/test_program_psd)
check-kit:
ifeq ($(CUDA_INCLUDE)-$(shell uname -m),$(or $(CUDA_INCLUDE),none)-x86_64)
	@$(MAKE) $(PARALLEL) GPU=none $(EMULATED_KIT) $(PROGRAMS:%=$(EMULATED)/%) $(EMULATED)/tests/bench_step $(NCCL_STAND_IN)
	@ON_GPU=$(EMULATED) PROGRAMS="$(PROGRAMS)" TESTS="$(EMULATED_KIT)" tools/gpu_kit/pack.sh emulated_kit 64MiB
	@TRAINC_NCCL=$(abspath $(NCCL_STAND_IN)) tests/kit/kit.sh build/emulated_kit
else
	@tests/kit/kit.sh
	@echo "SKIPPED: the GPU kit with the programs of the emulated card: it needs x86-64 and CUDA headers"
endif
gpu-kit: packages-build+test+kit cuda-toolkit ## packs the GPU tests, benchmarks and programs with all libraries for a machine that has only a driver
	@$(MAKE) pack-kit
KIT = gpu_kit
pack-kit:
	@[ $(GPU) != none ] || { echo "make gpu-kit: there is no CUDA toolkit" >&2; exit 1; }
	@$(MAKE) $(PARALLEL) $(BY_TESTED) gpu-programs
	@ON_GPU=$(ON_GPU) PROGRAMS="$(PROGRAMS)" TESTS="$(GPU_TESTS)" tools/gpu_kit/pack.sh $(KIT) 512MiB
# The kit of the preset of check-gpu, in a system that has nothing.
test-kit:
	@$(MAKE) $(PARALLEL) $(AS_LINKED) pack-kit KIT=l4_kit
	@$(MAKE) $(BUILD)/tests/kernels/driver/libcuda.so.1
	@tests/kit/bare.sh build/l4_kit $(BUILD)/tests/kernels/driver $(ROOTS)/minimal/bullseye

.PHONY: check check-nccl nccl-tests tests-of-cpu check-documents check-programs check-instruction-sets check-ptx check-ptx-t4 compare-profile test-ptx-mutations check-bits profile-kernels write-profile check-profile check-ptx-samples test-without-a-model check-deep check-crash test-crash test-poor-disk check-gpu check-syntax check-sass test-sass sass-budgets check-emulated check-emulated-programs check-two-hosts check-cards check-mutations check-race test-asan test-race test-mutations fuzz lint test-builds cuda-11.8 cuda-13.0 other-toolkit \
    cuda-toolkit bench-cpu bench-estimate gpu-programs gpu-test gpu-bench check-kit gpu-kit pack-kit test-kit
