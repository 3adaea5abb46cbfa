# The test programs: CPU tests, tests of the GPU code on the emulated card and on a real one, and fuzzers.

TESTS_OF_CPU := $(patsubst %.c,$(BUILD)/%,$(filter-out tests/cuda/% tests/mpi/% tests/nccl/%,$(wildcard tests/*/test_*.c tests/*/estimate/test_*.c)))
DEEP_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/deep_*.c))
CRASH_TESTS = $(filter %/deep_crash,$(DEEP_TESTS))
FUZZERS = $(patsubst tests/%.c,%,$(wildcard tests/fuzz/fuzz_*.c tests/*/fuzz/fuzz_*.c))
# The code that tests share: all sources in the test folders that are not programs, and not in CUDA_RIGS.
RIG_SOURCES = $(filter-out tests/bench/% tests/contracts/% tests/cuda/% tests/mpi/% tests/nccl/% tests/profile/% tests/release/% %/bench.c,$(wildcard tests/*.c tests/*/*.c))
RIGS = $(patsubst %.c,$(BUILD)/%.o,$(foreach f,$(RIG_SOURCES),$(if $(filter test_% deep_% fuzz_%,$(notdir $f)),,$f)))

# Links the code that reads TEST_FILTER also into a test that uses nothing else of libtests.a.
CMOCKA = -Wl,-u,choose_tests -lcmocka

$(call archive,$(BUILD)/libtests.a,$(RIGS))
# A third of the time that compiling tests takes at -O3; what takes long to run is in the library.
$(BUILD)/tests/%.o: CFLAGS += -O1

$(TESTS_OF_CPU) $(DEEP_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libtests.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)
$(BUILD)/tests/slm/test_import $(BUILD)/tests/slm/test_export: $(patsubst %,$(BUILD)/commands/slm/%.o,base options samples passage)
$(BUILD)/tests/bert/test_import: $(BUILD)/commands/bert/model.o $(BUILD)/commands/bert/options.o $(BUILD)/commands/bert/texts.o
$(BUILD)/tests/gpt/test_base: $(BUILD)/commands/gpt/base.o
$(BUILD)/tests/bert/test_evaluate: $(BUILD)/commands/bert/report.o
$(BUILD)/tests/cv/test_cv_report $(BUILD)/tests/cv/test_fold_report: $(patsubst %.c,$(BUILD)/%.o,$(wildcard commands/cv/report/*.c))
$(BUILD)/tests/slm/test_prepare: $(BUILD)/commands/slm/prepare.o
$(BUILD)/tests/bert/test_segment: $(BUILD)/commands/bert/segment.o $(BUILD)/commands/bert/texts.o
$(BUILD)/tests/slm/test_lines: $(BUILD)/commands/slm/lines.o
$(BUILD)/tests/bert/test_tokenizer: $(BUILD)/commands/bert/tokenizer.o $(BUILD)/commands/bert/texts.o

# A test with a clock of its own.
$(BUILD)/tests/train/test_clock: CMOCKA += $(foreach f,seconds_now step_end passes_run passes_measure progress_log checkpointer_save checkpointer_wait device_totals linear_forward terminal_progress,-Wl,--wrap=$f)

# train_gpt with networks in the place of IndexTTS2's that are tiny; below, also on the emulated card.
TINY = tiny/train_gpt
TINY_OBJECTS = $(call objects_of,train_gpt) $(BUILD)/tests/gpt/substitute/published.o
$(call members,$(BUILD)/$(TINY),$(TINY_OBJECTS))
$(BUILD)/$(TINY): $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(LDLIBS)
$(addprefix $(BUILD)/tests/gpt/,test_prepare_indextts2 test_indextts2_speak): $(BUILD)/tests/gpt/substitute/published.o
$(addprefix $(BUILD)/tests/gpt/,test_prepare_indextts2 test_indextts2_speak test_features_check deep_prepare_indextts2 deep_crash): | $(BUILD)/$(TINY)

# A substitute of NVML, which the code that loads the real one loads in a test; that code needs no CUDA headers.
$(BUILD)/tests/kernels/test_nvml: $(addprefix $(BUILD)/emulated/kernels/cuda/libraries/,nvml.o library.o) | $(BUILD)/tests/kernels/nvml.so
$(BUILD)/tests/kernels/nvml.so: tests/kernels/substitute/nvml.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) -fPIC -shared $< -o $@

# Libraries for programs that preload them: a disk that lacks links, locks and more; system files that lie elsewhere; a
# count of allocations. They have no checks of a sanitizer.
POOR_DISK = $(BUILD)/tests/base/disk.so
PRELOADED = $(POOR_DISK) $(BUILD)/tests/base/system.so $(BUILD)/tests/base/allocations.so
$(filter-out %/allocations.so,$(PRELOADED)): $(BUILD)/tests/base/%.so: tests/base/substitute/%.c
$(BUILD)/tests/base/allocations.so: tests/allocations.c
$(PRELOADED):
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(filter-out -fsanitize%,$(CFLAGS)) -fPIC -shared $< -o $@ -ldl
$(TESTS_OF_CPU) $(DEEP_TESTS): | $(PRELOADED)

# A stand-in for the driver, which programs with the real CUDA runtime load in tests/psd/gpu_startup.sh.
$(BUILD)/tests/kernels/driver/libcuda.so.1: tests/kernels/substitute/driver.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,libcuda.so.1 $< -o $@

$(FUZZERS:%=build/fuzz/%): build/fuzz/%: build/fuzz/tests/%.o build/fuzz/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -fopenmp -fsanitize=fuzzer,address,undefined $(LINKED) -o $@ $(LDLIBS)
build/fuzz/cv/fuzz/fuzz_log: build/fuzz/commands/cv/report/epoch_curves.o
build/fuzz/fuzz/fuzz_segmenter: build/fuzz/tests/segmenter_files.o

# The cuda device on the CPU, for tests: the C++ compiler compiles the kernels and kernels/cuda/emulate replaces the CUDA
# runtime. It needs only the CUDA headers. What depends on them is compiled again when they are of another toolkit.
CUDA_INCLUDE = $(call headers_of,$(TESTED_CUDA))
CUDA_FLAGS = $(call flags_of,$(TESTED_CUDA))
TOOLKIT_NAME = $(BUILD)/tested_toolkit
$(call text,$(TOOLKIT_NAME),toolkit: $(realpath $(TESTED_CUDA)) $(TESTED_VERSION))
EMULATED = $(BUILD)/emulated
EMULATOR_OBJECTS = $(patsubst %.cpp,$(EMULATED)/%.o,$(wildcard kernels/cuda/emulate/*.cpp))
EMULATED_OBJECTS = $(patsubst %,$(EMULATED)/%.o,$(basename $(CUDA_SOURCES))) $(EMULATOR_OBJECTS)
# test_operations comes last: it reads which operations the other tests have called.
CUDA_TEST_NAMES = $(filter-out %/test_operations,$(basename $(wildcard tests/cuda/test_*.c tests/*/cuda/test_*.c))) tests/cuda/test_operations
KERNEL_TEST_NAMES = $(basename $(wildcard tests/cuda/test_*.cu))
# The sources that the tests of CUDA_TEST_NAMES share. Each build of the GPU code compiles them: its types decide what they contain.
CUDA_RIGS = $(filter-out tests/cuda/test_%,$(basename $(wildcard tests/cuda/*.c)))
CUDA_TESTS = $(addprefix $(BUILD)/,$(KERNEL_TEST_NAMES) $(CUDA_TEST_NAMES))
# Tests of whole programs on the emulated card. Checks that repeat tests, such as those of races, leave them out: the
# other tests launch the same kernels.
PROGRAM_TESTS = $(addprefix %/,$(filter test_program_%,$(notdir $(CUDA_TEST_NAMES))))

$(EMULATED)/%.o: %.c $(TOOLKIT_NAME)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) $(CUDA_FLAGS) -c $< -o $@

# -O3 takes the compiler longer than it saves in the tests. Who names OPTIMIZE gets that.
KERNEL_OPTIMIZE = $(if $(filter command% environment%,$(origin OPTIMIZE)),,-O1)
# Kernels read registers as another type than the one that was written. CUDA allows this; -fstrict-aliasing does not.
$(EMULATED)/%.o: %.cu $(TOOLKIT_NAME)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CXXFLAGS) $(KERNEL_OPTIMIZE) $(CUDA_FLAGS) -fno-strict-aliasing -Wno-unknown-pragmas $(KERNEL_EXTRA) -x c++ -c $< -o $@

$(EMULATED)/kernels/cuda/emulate/%.o: kernels/cuda/emulate/%.cpp $(TOOLKIT_NAME)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CXXFLAGS) $(CUDA_FLAGS) -fno-strict-aliasing $(EMULATOR_EXTRA) -c $< -o $@

$(call archive,$(BUILD)/libemulated.a,$(EMULATED_OBJECTS))

# A stand-in for NCCL, which takes the emulated runtime from the program that loads it: TRAINC_NCCL=$(NCCL_STAND_IN).
NCCL_STAND_IN = $(BUILD)/tests/nccl/libnccl.so.2
EXPORT_RUNTIME = -Wl,--export-dynamic-symbol='cuda[A-Z]*' -Wl,--export-dynamic-symbol='emulate_*'
$(NCCL_STAND_IN): $(wildcard tests/nccl/stand_in/*) kernels/cuda/libraries/nccl_functions.h kernels/cuda/emulate/emulate_streams.h $(TOOLKIT_NAME)
	@mkdir -p $(@D)
	$(call say,CC,tests/nccl/stand_in/*.c)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(CUDA_FLAGS) -fPIC -shared -fvisibility=hidden -Wl,-soname,$(@F) \
	    $(filter %.c,$^) -o $@ -lm -lpthread

# Trainings on ranks with emulated cards, whose data the programs for the CPU prepare.
NCCL_TRAININGS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/nccl/test_*.c))
$(NCCL_TRAININGS): %: %.o $(BUILD)/libtests.a $(BUILD)/libtrain.a | $(NCCL_STAND_IN) $(PROGRAMS:%=$(BUILD)/%) $(PROGRAMS:%=$(EMULATED)/%)
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

# Its own tests, whose processes are forked: they use nothing but the emulated runtime.
NCCL_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/nccl/test_*.c))
NCCL_RIG = $(BUILD)/tests/nccl/rig.o
$(NCCL_TESTS:%=%.o) $(NCCL_RIG): CFLAGS += $(CUDA_FLAGS)
$(NCCL_TESTS:%=%.o) $(NCCL_RIG): $(TOOLKIT_NAME)
$(NCCL_TESTS): %: %.o $(NCCL_RIG) $(BUILD)/libtests.a $(EMULATOR_OBJECTS) $(BUILD)/libtrain.a | $(NCCL_STAND_IN)
	$(call say,LINK,$@)$(LINK) $(EXPORT_RUNTIME) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

$(patsubst %,$(BUILD)/%.o,$(CUDA_TEST_NAMES) $(CUDA_RIGS)): CFLAGS += $(CUDA_FLAGS)
$(patsubst %,$(BUILD)/%.o,$(CUDA_TEST_NAMES) $(CUDA_RIGS)): $(TOOLKIT_NAME)
$(BUILD)/tests/cuda/%.o: tests/cuda/%.cu $(TOOLKIT_NAME)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CXXFLAGS) $(KERNEL_OPTIMIZE) $(CUDA_FLAGS) -fno-strict-aliasing -Wno-unknown-pragmas $(KERNEL_EXTRA) -x c++ -c $< -o $@

# Tests written in CUDA have their own kernels.
$(addprefix $(BUILD)/,$(KERNEL_TEST_NAMES)): %: %.o $(BUILD)/libtests.a $(EMULATOR_OBJECTS) $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(EXPORT_RUNTIME) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

$(call archive,$(BUILD)/libcuda_tests.a,$(CUDA_RIGS:%=$(BUILD)/%.o))

$(addprefix $(BUILD)/,$(CUDA_TEST_NAMES)): %: %.o $(BUILD)/libcuda_tests.a $(BUILD)/libtests.a $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(EXPORT_RUNTIME) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)
$(BUILD)/tests/cuda/test_loop: | $(BUILD)/tests/kernels/nvml.so
$(filter $(PROGRAM_TESTS),$(CUDA_TESTS)): | $(PROGRAMS:%=$(EMULATED)/%)
$(call members,$(EMULATED)/$(TINY),$(TINY_OBJECTS))
$(BUILD)/tests/gpt/cuda/test_program_indextts2: $(BUILD)/tests/gpt/substitute/published.o | $(EMULATED)/$(TINY)
$(BUILD)/tests/gpt/cuda/test_program_features_check: | $(EMULATED)/$(TINY)
$(PROGRAMS:%=$(EMULATED)/%) $(EMULATED)/$(TINY) $(EMULATED)/tests/bench_step: $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) -Wl,-u,cuda_device_open $(EXPORT_RUNTIME) $(LINKED) -o $@ $(LDLIBS)

# The same tests on the PTX that nvcc makes of the kernels for cards of 8.0 and later, which kernels/cuda/emulate/ptx
# executes: only the objects of .cu files differ. Line numbers are for messages.
PTX = $(BUILD)/ptx
PTX_ARCHITECTURES = 80
PTX_FLAGS = -std=c++17 -O3 -lineinfo -I. -DEMULATED_CARD -DCUDA_HALF_BY_CARD -Xcompiler -fPIE,-Wall,-Wextra,-Werror -Werror all-warnings \
            --no-compress $(foreach a,$(PTX_ARCHITECTURES),-gencode arch=compute_$a$(comma)code=compute_$a) $(PTX_EXTRA)
PTX_EXECUTOR = $(patsubst %.cpp,$(EMULATED)/%.o,$(wildcard kernels/cuda/emulate/ptx/*.cpp))
PTX_TEST_NAMES = $(filter-out %/test_cublas %/test_cudnn $(PROGRAM_TESTS),$(CUDA_TEST_NAMES))
PTX_TESTS = $(addprefix $(PTX)/,tests/cuda/test_wrappers $(PTX_TEST_NAMES))

$(call text,$(PTX)/flags,$(PTX_FLAGS))
$(PTX)/%.o: %.cu $(TOOLKIT_NAME) $(PTX)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(TESTED_NVCC) $(PTX_FLAGS) -MMD -MP -c $< -o $@

# A register is a vector of lanes: AVX2 and FMA compute with it. Products are joined with sums only where PTX says so.
$(PTX_EXECUTOR): EMULATOR_EXTRA += -march=x86-64-v3 -ffp-contract=off

# Its kernels are compiled for this test alone, so that it runs as any card.
$(PTX)/tests/cuda/test_wrappers.o: PTX_ARCHITECTURES = $(sort 75 80 $(CARD_$(TOOLKIT)))
$(PTX)/tests/cuda/test_wrappers: %: %.o $(BUILD)/libtests.a $(PTX_EXECUTOR) $(EMULATOR_OBJECTS) $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

# What the kernels count: docs/KERNEL_PROFILE.md.
PROFILE_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/profile/*.c))
$(PROFILE_OBJECTS): CFLAGS += $(CUDA_FLAGS)
$(PROFILE_OBJECTS): $(TOOLKIT_NAME)

# $(call ptx_rules,FOLDER,OBJECTS): the tests in FOLDER/ptx with the objects of the .cu files that nvcc has compiled.
define ptx_rules
$(call archive,$1/libptx.a,$2 $(patsubst %.c,$(EMULATED)/%.o,$(filter %.c,$(CUDA_SOURCES))) $(EMULATOR_OBJECTS) $(PTX_EXECUTOR))
$(addprefix $1/,$(PTX_TEST_NAMES)): $1/%: $(BUILD)/%.o $(BUILD)/libcuda_tests.a $(BUILD)/libtests.a $1/libptx.a $(BUILD)/libtrain.a
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)$$(LINK) $$(LINKED) -o $$@ $$(CMOCKA) $$(LDLIBS)
$1/tests/cuda/test_loop: | $(BUILD)/tests/kernels/nvml.so
$(call members,$1/tests/profile_kernels,$(PROFILE_OBJECTS))
$1/tests/profile_kernels: $(BUILD)/libcuda_tests.a $(BUILD)/libtests.a $1/libptx.a $(BUILD)/libtrain.a
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)$$(LINK) $$(LINKED) -o $$@ $$(CMOCKA) $$(LDLIBS)
endef
$(eval $(call ptx_rules,$(PTX),$(patsubst %.cu,$(PTX)/%.o,$(filter %.cu,$(CUDA_SOURCES)))))
# The same with the objects of the programs for GPUs, whose PTX the executor finds beside them.
ifneq ($(GPU),none)
$(eval $(call ptx_rules,$(ON_GPU)/ptx,$(patsubst %.cu,$(ON_GPU)/%.o,$(filter %.cu,$(CUDA_SOURCES)))))
endif
AS_SHIPPED = EMULATE_PTX=$(BUILD)/gpu_all TRAINC_CUBLASLT=none TRAINC_CUDNN=none

# test_cublas and test_cudnn use fake libraries and are left out. The wrappers of inline PTX are tested first: if they
# fail, the other results mean nothing.
GPU_TEST_NAMES = tests/cuda/test_wrappers $(filter-out %/test_cublas %/test_cudnn,$(CUDA_TEST_NAMES))
GPU_TESTS = $(addprefix $(ON_GPU)/,$(GPU_TEST_NAMES))
ifneq ($(GPU),none)
$(call archive,$(ON_GPU)/libcuda_tests.a,$(CUDA_RIGS:%=$(ON_GPU)/%.o))

$(GPU_TESTS): %: %.o $(ON_GPU)/libcuda_tests.a $(BUILD)/libtests.a $(CUDA_DEVICE) $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(CUDA_LIBS) $(LDLIBS)
endif
