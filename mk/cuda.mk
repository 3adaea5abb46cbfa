# With a CUDA toolkit the trainers also have the cuda device. GPU names its cards: a preset of configs/gpu, native (the card
# in this machine), all, or none. The runtime is linked statically and the driver is loaded only when a GPU is used, so
# that the same program starts on a machine without CUDA.
#
# TOOLKIT is the version that releases are built with and kernels are tested with, without a GPU: what needs it fetches it
# into build/ (tools/install_cuda.sh). Programs for this machine are built with the toolkit that CUDA_HOME names or that is
# installed, and otherwise with a fetched one.
comma = ,
FETCHED_CUDA = $(patsubst %/bin/nvcc,%,$(wildcard build/cuda-$1/usr/bin/nvcc))
CUDA_HOME ?= $(or $(patsubst %/bin/nvcc,%,$(firstword $(wildcard /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc) \
               $(shell command -v nvcc 2>/dev/null))),$(call FETCHED_CUDA,$(TOOLKIT)),$(call FETCHED_CUDA,13.0))
TESTED_CUDA := $(or $(call FETCHED_CUDA,$(TOOLKIT)),$(CUDA_HOME),$(call FETCHED_CUDA,13.0))
NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
BY_TESTED = CUDA_HOME=$(TESTED_CUDA)
TESTED_NVCC := $(wildcard $(TESTED_CUDA)/bin/nvcc)
version_of = $(if $1,$(shell $1 --version | sed -n 's/.*, V//p'))
TESTED_VERSION = $(call version_of,$(TESTED_NVCC))
# The headers of a toolkit; a distribution has them in /usr/include.
headers_of = $(firstword $(wildcard $(addsuffix /cuda_runtime_api.h,$1/include /usr/include)))
flags_of = $(addprefix -isystem ,$(patsubst /usr/include/,,$(dir $(call headers_of,$1))))
CUDA_SOURCES = $(filter-out kernels/cuda/emulate/%,$(wildcard kernels/cuda/*.c kernels/cuda/*.cu kernels/cuda/*/*.c kernels/cuda/*/*.cu))
CHOSEN_GPU := $(GPU)
GPU ?= $(if $(NVCC),all,none)
PRESETS = $(patsubst configs/gpu/%.mk,%,$(wildcard configs/gpu/*.mk))
BUILT_FOR = cpu$(if $(CHOSEN_GPU),, (no CUDA toolkit was found: install one or set CUDA_HOME for a GPU))
ON_GPU = $(BUILD)
ifneq ($(GPU),none)
ON_GPU = $(BUILD)/gpu_$(GPU)
$(if $(NVCC),,$(error GPU=$(GPU) needs nvcc, which was not found: install a CUDA toolkit, set CUDA_HOME, or fetch one: tools/install_cuda.sh $(TOOLKIT) build/cuda-$(TOOLKIT)))
KNOWN_ARCHITECTURES := $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch))
ifneq ($(filter $(GPU),$(PRESETS)),)
include configs/gpu/$(GPU).mk
GPU_DEFINES = -DCUDA_HALF_$(GPU_HALF) -DGPU_BATCH=$(GPU_BATCH) -DGPU_ACCUMULATION=$(GPU_ACCUMULATION) -DGPU_WORKERS=$(GPU_WORKERS) -DGPU_NAME=\"$(GPU)\"
PRESET_DEFAULTS = $(ON_GPU)/train/options.o # is linked before the archive, which has the general defaults
else ifeq ($(GPU),all) # the architectures of all presets that the toolkit supports
GPU_ARCHITECTURES := $(filter $(KNOWN_ARCHITECTURES),$(sort $(shell sed -n 's/^GPU_ARCHITECTURES = //p' configs/gpu/*.mk)))
GPU_DEFINES = -DCUDA_HALF_BY_CARD
else ifneq ($(GPU),native)
$(error GPU=$(GPU) is not a preset: choose one of $(PRESETS), native, all, none)
endif
ifneq ($(filter-out $(KNOWN_ARCHITECTURES),$(GPU_ARCHITECTURES)),)
$(error GPU=$(GPU) needs sm_$(GPU_ARCHITECTURES), which the toolkit in $(CUDA_HOME) does not support: CUDA 12 is the last with sm_70)
endif
# Cards of 8.0 and later have one PTX, the one that check-ptx executes; cards that are newer than all named get it as it is. To
# have nvcc make PTX for 8.6, 8.9 and 9.0, too, takes as long as the rest and gains nothing: of that for 9.0, machine code has 0
# to 0.5 % more bytes, and hot loops for 8.9 are the same. Native builds have nvcc's own.
ptx_of = $(if $(filter 70 75,$1),$1,80)
NVCC_TARGETS = $(if $(filter native,$(GPU)),-arch=native,$(foreach a,$(GPU_ARCHITECTURES),-gencode arch=compute_$(call ptx_of,$a)$(comma)code=sm_$a) \
                 $(foreach a,$(call ptx_of,$(lastword $(GPU_ARCHITECTURES))),-gencode arch=compute_$a$(comma)code=compute_$a))
# Lines for profilers double the size of a program. A path, a name and kept files make names in objects that depend neither on
# the folder of the build nor on chance.
KEPT = $(@:.o=.kept)
NVCC_FLAGS = -std=c++17 -O3 $(if $(filter native,$(GPU)),-lineinfo) -I. $(GPU_DEFINES) -Xcompiler -fPIE,-Wall,-Wextra,-Werror \
             -Werror all-warnings -Xfatbin -compress-all -Xcudafe --orig_src_path_name=/$< -DCUDA_FILE=file_$(*F) -keep -keep-dir $(KEPT)
CUDA_OBJECTS = $(patsubst %,$(ON_GPU)/%.o,$(basename $(CUDA_SOURCES)))
CUDA_DEVICE = $(ON_GPU)/libcuda_device.a
TAKE_CUDA = -Wl,-u,cuda_device_open # takes it from libcuda_device.a, not from kernels/cuda_absent.c
CUDA_LIBS = $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib $(CUDA_HOME)/lib/* /usr/lib/*))) -ldl -lrt
BUILT_FOR = cpu and cuda: $(if $(filter native,$(GPU)),the card that is here,$(GPU_ARCHITECTURES:%=sm_%))

$(ON_GPU)/kernels/cuda/device.o: CFLAGS += \
    -DCUDA_BUILT_FOR='"$(if $(filter native,$(GPU)),the card of the machine where it was built,$(GPU_ARCHITECTURES:%=sm_%)$(if $(GPU_HALF), (preset $(GPU))))"'

# Beside the object stay what ptxas says of each kernel, for tests/cuda/spills.sh, and PTX and machine code, for sass.py and
# for tests that execute this PTX.
$(call text,$(ON_GPU)/toolkit,$(realpath $(CUDA_HOME)) $(call version_of,$(NVCC)) $(NVCC_TARGETS))
$(ON_GPU)/%.o: %.cu $(ON_GPU)/toolkit
	@rm -rf $(KEPT) && mkdir -p $(KEPT)
	$(call say,NVCC,$<)$(NVCC) $(NVCC_FLAGS) $(NVCC_TARGETS) -Xptxas -v -MMD -MP -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
	@find $(KEPT) -type f ! -name '*.ptx' ! -name '*.cubin' -delete

$(ON_GPU)/%.o: %.c $(ON_GPU)/toolkit
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) $(call flags_of,$(CUDA_HOME)) $(GPU_DEFINES) -c $< -o $@

$(call archive,$(CUDA_DEVICE),$(CUDA_OBJECTS))
endif
