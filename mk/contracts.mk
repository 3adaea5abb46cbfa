# What we assume of NVIDIA's libraries, checked against several versions of their headers and libraries: tests/contracts.

GPU_LIBRARIES = build/gpu-libraries
# The emulated card is the device. NVML's contract is only compiled: there is no library without a driver.
CONTRACTS = $(addprefix $(BUILD)/tests/contracts/,cuda11/cublas cuda11/cudnn cuda12/cublas cuda12/cudnn cuda12/nccl \
              cuda13/cublas cuda13/cudnn cuda13/nccl)
NVML_CONTRACTS = $(addprefix $(BUILD)/tests/contracts/,cuda12/nvml.o cuda13/nvml.o)

# What the contracts depend on. Its hash stands in a file once they have been checked, so that `make test-deep` downloads
# gigabytes only when it has changed.
CONTRACT_SOURCES = $(sort $(wildcard tests/contracts/*.c tests/contracts/*.h tests/contracts/planted.* kernels/cuda/libraries/*)) \
                   kernels/cuda/gemm/gemm.h kernels/cuda/conv3d/conv3d_product.h kernels/cuda/conv3d/conv3d_own.h \
                   tools/install_gpu_libraries.sh mk/contracts.mk
CONTRACTS_CHECKED = tests/contracts/checked
CONTRACTS_HASH = $(call hash_of,$(CONTRACT_SOURCES))

# Installation first, then a second make, which finds what has been installed.
check-contracts: packages-build+test cuda-toolkit ## compares what we assume of cuBLASLt, cuDNN, NCCL and NVML with the real ones, which it fetches
	@tools/install_gpu_libraries.sh $(GPU_LIBRARIES)
	@$(MAKE) $(PARALLEL) GPU=none test-contracts

check-changed-contracts:
	@if [ "$$(cat $(CONTRACTS_CHECKED))" = $(CONTRACTS_HASH) ]; then \
	    echo "the contracts with NVIDIA's libraries have not changed since make check-contracts"; \
	else $(MAKE) check-contracts; fi

test-contracts:
ifeq ($(CUDA_INCLUDE),)
	@echo "SKIPPED: the contracts with NVIDIA's libraries: no CUDA headers were found"
else ifneq ($(wildcard $(GPU_LIBRARIES)/version),)
	@$(MAKE) $(PARALLEL) $(CONTRACTS) $(NVML_CONTRACTS)
	@JOBS=$(CORES) BUILD=$(BUILD) tools/run_tests.sh $(CONTRACTS)
	@BUILD=$(BUILD) COMPILE="$(CC) $(CFLAGS)" HEADERS="$(call real_headers,cuda13)" TOOLKIT_HEADERS="$(CUDA_FLAGS)" LINK="$(LINK)" \
	    LIBS="$(BUILD)/libtests.a $(BUILD)/libemulated.a $(BUILD)/libtrain.a $(CMOCKA) $(LDLIBS)" tests/contracts/planted.sh
	@echo $(CONTRACTS_HASH) >$(CONTRACTS_CHECKED)
endif

# The headers of a version; those of the toolkit come after them.
real_headers = -DREAL_LIBRARIES=$(GPU_LIBRARIES)/$1/lib -isystem $(GPU_LIBRARIES)/$1/include
define contract_rules
$(BUILD)/tests/contracts/$1/%.o: tests/contracts/%.c $(GPU_LIBRARIES)/version $(TOOLKIT_NAME)
	@mkdir -p $$(@D)
	$$(call say,CC,$$<)$$(CC) $$(CFLAGS) $(call real_headers,$1) $$(CUDA_FLAGS) -c $$< -o $$@
endef
$(foreach v,cuda11 cuda12 cuda13,$(eval $(call contract_rules,$v)))

$(CONTRACTS): %: %.o $(BUILD)/libtests.a $(BUILD)/libemulated.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

.PHONY: check-contracts check-changed-contracts test-contracts
