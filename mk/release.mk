# `make release`: one file per program that runs on any x86-64 Linux with glibc 2.17 or newer. The compiler is the usual one;
# the linker is zig's, which has the symbols of old C libraries. All other libraries are linked in: those of
# tools/release/libraries.txt.
LIBRARIES = build/libraries
ZIG = build/zig/ziglang/zig
SOURCE_LIBRARIES = $(patsubst %,$(LIBRARIES)/%.done,$(shell sed -n 's/ .* [0-9a-f]\{64\} .*//p' tools/release/libraries.txt))
CUDA_RELEASE = $(basename $(TOOLKIT))
PORTABLE = build/portable-cuda$(CUDA_RELEASE)
RELEASED = build/dist/linux-x86_64-cuda$(CUDA_RELEASE)
# The cards of the other sets. With CUDA 11.8, cards of 8.9 run the code for 8.6.
RELEASE_CARDS_13.0 = 75 80 86 89 90 100 120
RELEASE_CARDS_11.8 = 70 75 80 86
RELEASE_GPU = GPU=all $(BY_TESTED) $(if $(RELEASE_CARDS_$(TOOLKIT)),GPU_ARCHITECTURES="$(RELEASE_CARDS_$(TOOLKIT))")

# The compiler knows where Debian's archives and its own are.
archives = $(foreach l,$1,$(shell $(CC) -print-file-name=lib$l.a))
RELEASE_LIBS = -L$(LIBRARIES)/lib -ldnnl -lzip -ltiff -lsndfile -lmpg123 -lmp3lame -lsamplerate -lsentencepiece_train -lsentencepiece \
    $(call archives,yaml jansson FLAC vorbisenc vorbis opus ogg zstd lzma z unistring gomp stdc++ gcc_eh gcc) -lm -lpthread -ldl -lrt
RELEASE_LINK = ZIG_GLOBAL_CACHE_DIR=build/zig/cache $(ZIG) cc -target x86_64-linux-gnu.2.17 -pie -s -Wl,-z,relro,-z,now -Wl,--gc-sections
RELEASE_OBJECTS = $(PORTABLE)/tools/release/glibc_2_17.o $(PORTABLE)/tools/release/texts.o

# Installation first, then other makes, which find what has been installed.
release: packages-build+release ## portable programs, one file each, and an archive with them, in build/dist; TOOLKIT=11.8 for older drivers, 13.0 for newer cards
	@tools/part.sh release --begin
	@tools/part.sh release toolkit tools/install_cuda.sh $(TOOLKIT) build/cuda-$(TOOLKIT)
	@tools/part.sh release linker tools/release/install_zig.sh build/zig
	@tools/part.sh release libraries $(MAKE) -j2 $(SOURCE_LIBRARIES)
	@tools/part.sh release kernels $(MAKE) release-kernels
	@tools/part.sh release programs $(MAKE) release-programs
	@tools/part.sh release archive tools/release/archive.sh $(RELEASED) $(TOOLKIT)
	@tools/part.sh release --sum

release-kernels:
	@$(MAKE) $(PARALLEL) $(RELEASE_GPU) $(BUILD)/gpu_all/libcuda_device.a

# Builds the programs as always, but for the linker, the headers and the libraries.
release-programs:
	@$(MAKE) $(RELEASE_GPU) link-release
link-release:
	@[ ! -e $(PORTABLE) ] || [ -z "$$(find $(LIBRARIES) -maxdepth 1 -name '*.done' -newer $(PORTABLE))" ] || rm -rf $(PORTABLE)
	@mkdir -p $(PORTABLE)
	@PKG_CONFIG_PATH=$(LIBRARIES)/lib/pkgconfig $(MAKE) $(PARALLEL) GPU=none BUILD=$(PORTABLE) EXTRA="-isystem $(LIBRARIES)/include" \
	    CUDA_DEVICE="$(RELEASE_OBJECTS) $(CUDA_DEVICE)" TAKE_CUDA="$(TAKE_CUDA)" CUDA_LIBS="$(firstword $(CUDA_LIBS))" \
	    LINK="$(RELEASE_LINK)" LDLIBS="$(RELEASE_LIBS)" \
	    $(PROGRAMS:%=$(PORTABLE)/%) $(PORTABLE)/tests/bench_step
	@mkdir -p $(RELEASED)
	@cp --remove-destination $(PROGRAMS:%=$(PORTABLE)/%) $(RELEASED)
	@cd $(RELEASED) && sha256sum $(PROGRAMS) >SHA256SUMS && ls -l

release-test: packages-build+release ## tests the release in minimal Debian 11, 12 and 13 systems, which it fetches to ROOTS; for root
	@[ $(TOOLKIT) = $(RELEASED_TOOLKIT) ] || { echo "make release-test: tests the release with CUDA $(RELEASED_TOOLKIT), not $(TOOLKIT)" >&2; exit 1; }
	@[ "$$(id -u)" -eq 0 ] || { echo "make release-test: only root can make the systems to test in: use sudo" >&2; exit 1; }
	@$(MAKE) release
	@$(MAKE) release-hash
	@$(MAKE) test-released
	@mv $(BUILD)/release_hash $(RELEASE_CHECKED)

# Has the programs of the usual build compute the same as the release. Convolutions differ between versions of oneDNN, so
# that train_cv is linked as usual but for the release's oneDNN.
test-released:
	@$(MAKE) $(PARALLEL) GPU=none $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tests/release/sounds $(BUILD)/tests/kernels/driver/libcuda.so.1
	@$(MAKE) $(PARALLEL) GPU=none BUILD=$(PORTABLE) EXTRA="-isystem $(LIBRARIES)/include" $(PORTABLE)/reference/train_cv
	@cp $(filter-out %_cv,$(PROGRAMS:%=$(BUILD)/%)) $(PORTABLE)/reference
	@tests/release/run.sh build/dist $(RELEASED) $(PORTABLE)/reference $(BUILD)/tests/release/sounds $(BUILD)/tests/kernels/driver $(ROOTS)/minimal
	@CUDA_HOME=$(abspath $(TESTED_CUDA)) tests/release/reproduce.sh $(LIBRARIES) $(BUILD)
	@for test in $(wildcard tests/*/gpu_startup.sh); do \
	    PROGRAMS=$(abspath $(RELEASED)) DRIVER=$(abspath $(BUILD)/tests/kernels/driver) $$test || exit; \
	done
	@$(MAKE) test-kit

# What a release has beside our objects: how it is made, and which functions of other libraries are called. Its hash stands in
# a file once a release has been tested, so that `make test-deep` compiles the libraries, for ten minutes, only when it has
# changed. Symbols of glibc that a release lacks are an error each time.
# Objects for oneDNN 3 are compiled for a release alone. The machine code's size in MB counts for the limit of a program's size.
RELEASE_SOURCES = $(sort $(wildcard tools/release/* tools/gpu_kit/* tests/release/*.* tests/kit/bare.sh tests/*/gpu_startup.sh configs/gpu/*.mk)) mk/release.mk mk/build.mk \
                  mk/cuda.mk $(addprefix tools/,make_root.sh in_root.sh install_cuda.sh install_packages.sh list_files.sh) LICENSE \
                  kernels/cpu/onednn_versions.h tests/kernels/substitute/driver.c demo/cv.yaml demo/psd_finetune.yaml $(BUILD)/other_functions
RELEASE_CHECKED = tests/release/checked
$(BUILD)/other_functions: $(BUILD)/libtrain.a $(CUDA_DEVICE) $(sort $(foreach p,$(PROGRAMS),$(call objects_of,$p))) tests/release/symbols.sh tools/release/glibc_2_17.c
	@tests/release/symbols.sh $(filter-out %.sh %.c $(CUDA_DEVICE),$^) >$@.new
	@tests/release/symbols.sh $(CUDA_DEVICE) >/dev/null
	@echo "$$(($$(stat -c %s $(CUDA_DEVICE)) / 1000000)) MB" >>$@.new
	@mv $@.new $@
release-hash:
	@$(MAKE) $(PARALLEL) $(RELEASE_GPU) write-release-hash
write-release-hash: $(BUILD)/other_functions
	@echo $(call hash_of,$(RELEASE_SOURCES)) >$(BUILD)/release_hash
changed-release: $(BUILD)/other_functions
	@if [ "$$(cat $(RELEASE_CHECKED))" = $(call hash_of,$(RELEASE_SOURCES)) ]; then \
	    echo "a release needs what it needed at the last make release-test"; \
	else $(MAKE) release-test; fi

# The part of `make test-deep`.
check-release:
	@if [ "$(call FETCHED_CUDA,$(TOOLKIT))" ] && [ "$$(uname -m)" = x86_64 ] && grep -q '^VERSION_CODENAME=bookworm' /etc/os-release && \
	    unshare --mount true 2>/dev/null; then $(MAKE) $(PARALLEL) $(RELEASE_GPU) changed-release; \
	else echo "SKIPPED: the test of the portable programs, which needs Debian 12 on x86-64, CUDA $(TOOLKIT) in build/, and root's rights"; fi

$(BUILD)/reference/train_cv: $(call objects_of,train_cv) $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) -Wl,--gc-sections $(LINKED) -o $@ $(LIBRARIES)/lib/libdnnl.a $(filter-out -ldnnl,$(LDLIBS))

$(BUILD)/tests/release/sounds: $(BUILD)/tests/release/sounds.o $(BUILD)/libtests.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)

$(LIBRARIES)/%.done: tools/release/libraries.txt tools/release/library.sh
	@tools/release/library.sh $(LIBRARIES) $* && touch $@
$(LIBRARIES)/libsndfile.done: $(LIBRARIES)/mpg123.done $(LIBRARIES)/LAME.done

$(BUILD)/tools/release/texts.o: tools/release/texts.S tools/release/licenses.sh tools/release/libraries.txt LICENSE
	@mkdir -p $(@D)
	@tools/release/licenses.sh $(LIBRARIES) "$(TOOLKIT)" $(@D)
	$(call say,AS,$<)$(CC) -c -Wa,-I$(@D) $< -o $@

.PHONY: release release-kernels release-programs link-release release-test test-released release-hash write-release-hash changed-release check-release
