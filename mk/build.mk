# How the library and the programs are compiled and linked. Objects go to $(BUILD), one folder per kind of build.

# The rooms of the library, lowest first. The rooms of a model are folders in data, model and commands.
ROOMS = base kernels data model checkpoint report page cost train estimate commands
# Other folders of data and model that belong to one model, for tools/check_walls.sh and tools/take_away.sh.
ROOMS_OF_gpt = data/indextts2 model/indextts2
PROGRAMS = $(basename $(wildcard train_*.c))
REVISION := $(shell tools/revision.sh)

WARNINGS = -Wall -Wextra -Wpedantic -Werror
# Hardening against bugs that are not found yet. Builds with sanitizers replace it by their own checks.
OPTIMIZE = -O3 -g -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
COMMON = $(WARNINGS) $(OPTIMIZE) -fPIE -I. -D_GNU_SOURCE -fopenmp -MMD -MP $(EXTRA)
CFLAGS = -std=c11 -fno-math-errno $(COMMON)
CXXFLAGS = -std=c++17 $(COMMON)
LINK = $(CC) -fopenmp -pie -Wl,-z,relro,-z,now $(EXTRA)
LDLIBS = -ldnnl -lyaml -ljansson -lzip -lz -ltiff -lsndfile -lsamplerate -lsentencepiece -lsentencepiece_train \
         -lunistring -lstdc++ -lm -lpthread

# The CPU operations are compiled once per instruction set; the program chooses the best one at run time.
ifeq ($(shell uname -m),x86_64)
CPU_SETS = avx512 avx2 sse4
# They are -march=x86-64-v4, v3 and v2, whose names gcc 10 does not know.
CPU_FLAGS_sse4 = -msse4.2 -mpopcnt -mcx16 -msahf
CPU_FLAGS_avx2 = $(CPU_FLAGS_sse4) -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mmovbe
CPU_FLAGS_avx512 = $(CPU_FLAGS_avx2) -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512
else
CPU_SETS = baseline
endif

LIBRARY = $(filter-out kernels/cpu/% kernels/cuda/%,$(wildcard $(foreach r,$(filter-out commands,$(ROOMS)),$r/*.c $r/*.cc \
            $r/*/*.c $r/*/*.cc))) kernels/cpu/device.c kernels/cpu/scratch.c $(wildcard commands/*.c)
LIBRARY_OBJECTS = $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(LIBRARY)))) \
                  $(CPU_SETS:%=$(BUILD)/kernels/cpu/operations_%.o) $(BUILD)/configs/built_in.o
# Returns the object files of a program: its own and those of its commands.
objects_of = $(patsubst %.c,$(BUILD)/%.o,$1.c $(wildcard $(addprefix commands/$(patsubst train_%,%,$1)/,*.c */*.c)))

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CXXFLAGS) -c $< -o $@

$(BUILD)/kernels/cpu/operations_%.o: kernels/cpu/operations.c
	@mkdir -p $(@D)
	$(call say,CC,$< for $*)$(CC) $(CFLAGS) -ffp-contract=fast $(CPU_FLAGS_$*) -DCPU_TABLE=cpu_operations_$* -c $< -o $@

# Recompiles the one file that names the revision when the revision changes.
$(call text,$(BUILD)/revision,$(REVISION))
$(BUILD)/base/version.o: CFLAGS += -DGIT_REVISION='"$(REVISION)"'
$(BUILD)/base/version.o: $(BUILD)/revision
# The files of configs/ are in the programs.
CONFIGS = $(sort $(wildcard configs/*.yaml))
$(call text,$(BUILD)/configs/names,$(CONFIGS))
$(BUILD)/configs/built_in.c: tools/embed_configs.sh $(CONFIGS) $(BUILD)/configs/names
	@mkdir -p $(@D)
	@tools/embed_configs.sh $(CONFIGS) >$@.new && mv $@.new $@
$(BUILD)/configs/built_in.o: $(BUILD)/configs/built_in.c
	$(call say,CC,configs/*.yaml)$(CC) $(CFLAGS) -c $< -o $@
# SentencePiece has no function that returns its version.
$(BUILD)/commands/libraries.o: CFLAGS += -DSENTENCEPIECE_VERSION='"$(shell pkg-config --modversion sentencepiece)"'

$(call archive,$(BUILD)/libtrain.a,$(LIBRARY_OBJECTS))

PROGRAM_FOLDER = $(ON_GPU)$(if $(filter 1,$(MPI)),/mpi)
$(PROGRAMS): %: $(PROGRAM_FOLDER)/% FORCE
	@cmp -s $< $@ || cp --remove-destination $< $@

$(foreach p,$(PROGRAMS),$(foreach folder,$(ON_GPU) $(BUILD)/emulated,$(call members,$(folder)/$p,$(call objects_of,$p))))
$(foreach folder,$(ON_GPU) $(BUILD)/emulated,$(call members,$(folder)/tests/bench_step,$(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/*.c tests/*/bench.c))))
$(PROGRAMS:%=$(ON_GPU)/%) $(ON_GPU)/tests/bench_step: $(PRESET_DEFAULTS) $(CUDA_DEVICE) $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $(TAKE_CUDA) $(LINKED) -o $@ $(CUDA_LIBS) $(LDLIBS)

# Writes docs/ESTIMATES.md.
$(call members,$(BUILD)/tools/estimates,$(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/claims/*.c)))
$(BUILD)/tools/estimates: $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(LDLIBS)

# Runs the tokenizers for the scripts of tests/reference.
$(BUILD)/tools/tokenize: $(BUILD)/tools/tokenize.o $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(LDLIBS)
