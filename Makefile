# make            builds the programs            make demo   installs what is missing, then trains a small TTS GPT
# make test       all tests                      make test-asan, make fuzz, make lint, make bench-cpu
# Objects go to build/NAME/, one folder a kind of build; nothing else is written outside build/ but the programs.

CC ?= gcc
CXX ?= g++
BUILD ?= build/release
PROGRAMS = train_gpt prepare_tts decode_tts

PACKAGES = dnnl yaml-0.1 jansson libzip sndfile samplerate fftw3f sentencepiece libcrypto
WARNINGS = -Wall -Wextra -Wpedantic -Werror
OPTIMIZE = -O3 -g
INCLUDE = -I. -D_GNU_SOURCE
CFLAGS = -std=c11 $(WARNINGS) $(OPTIMIZE) $(INCLUDE) -fopenmp -ffp-contract=fast -fno-math-errno -MMD -MP $(EXTRA)
CXXFLAGS = -std=c++17 $(WARNINGS) $(OPTIMIZE) $(INCLUDE) -fopenmp -MMD -MP $(EXTRA)
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

LIBRARY = $(filter-out %_main.c,$(wildcard base/*.c kernels/*.c kernels/cpu/device.c model/*.c data/*.c train/*.c))
LIBRARY_OBJECTS = $(LIBRARY:%.c=$(BUILD)/%.o) $(patsubst %.cc,$(BUILD)/%.o,$(wildcard data/*.cc)) \
                  $(CPU_SETS:%=$(BUILD)/kernels/cpu/operations_%.o)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

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
	$(CC) $(CFLAGS) $(CPU_FLAGS_$*) -DCPU_TABLE=cpu_operations_$* -c $< -o $@

$(BUILD)/libtrain.a: $(LIBRARY_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(PROGRAMS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/helpers.o $(BUILD)/libtrain.a
	$(CC) -fopenmp $(EXTRA) $^ -o $@ -lcmocka $(LDLIBS)

clean:
	rm -rf build $(PROGRAMS)

.PHONY: all clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
