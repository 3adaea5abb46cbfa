# train.c: `make help` lists what can be made. How things are compiled and checked stands in mk/.
# Objects go to build/NAME/, one folder a kind of build; outside build/ only the programs and
# demo/work are written, and by make check-contracts, release-test and profile-kernels the hash of what was checked.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
# The version of CUDA that releases are built with, and kernels tested.
RELEASED_TOOLKIT = 12.4
TOOLKIT ?= $(RELEASED_TOOLKIT)
BUILD ?= build/$(if $(filter $(RELEASED_TOOLKIT),$(TOOLKIT)),release,with_cuda-$(TOOLKIT))
PREFIX ?= /usr/local

.DEFAULT_GOAL = all
include mk/rules.mk
include mk/cuda.mk
include mk/build.mk
include mk/tests.mk
include mk/mpi.mk
include mk/checks.mk
include mk/contracts.mk
include mk/release.mk
include mk/dist.mk

# All cores, unless make was told how many.
CORES := $(shell nproc)
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(CORES))

all: ## builds the programs: for the CPU, and for GPUs where there is a CUDA toolkit
	@tools/check_libraries.sh $(CC)
	@$(MAKE) $(PARALLEL) $(PROGRAMS)
	@echo "built $(PROGRAMS) for $(if $(MPI_LIBS),mpi$(comma) )$(BUILT_FOR)"

# Installation first, then a second make: what is built depends on what has just been installed.
packages-%:
	@tools/install_packages.sh $(subst +, ,$*)

demo: packages-build+demo ## installs what is missing, makes Amharic speech and trains a small TTS GPT on it
	@$(MAKE) all GPU=$(or $(CHOSEN_GPU),none)
	@demo/demo.sh

demo-psd: packages-build ## makes synthetic radio spectra, pretrains, trains classifiers with and without it
	@$(MAKE) all GPU=$(or $(CHOSEN_GPU),none)
	@demo/psd.sh

demo-slm: packages-build+demo-slm ## trains a tokenizer and a small text GPT on the King James Bible, which then writes
	@$(MAKE) all GPU=$(or $(CHOSEN_GPU),none)
	@demo/slm.sh

demo-many: packages-build+demo-slm+mpi ## trains a small text GPT on one rank and on two over MPI, and compares the losses
	@$(MAKE) all GPU=none MPI=1
	@demo/many.sh

demo-bert: packages-build ## makes up Vietnamese comments, pretrains an encoder, trains classifiers with and without it
	@$(MAKE) all GPU=$(or $(CHOSEN_GPU),none)
	@demo/bert.sh

demo-cv: packages-build ## makes synthetic FLIM cells and trains six folds, each tested on an unseen donor
	@$(MAKE) all GPU=$(or $(CHOSEN_GPU),none)
	@demo/cv.sh

# What one runs after each change.
test: packages-build+test ## installs what is missing, builds, runs the tests of the CPU and of the documents
	@tools/part.sh test --begin
	@tools/part.sh test build $(MAKE) $(PARALLEL) GPU=none tests-of-cpu
	@tools/part.sh test tests $(MAKE) check-programs
	@tools/part.sh test documents $(MAKE) check-documents
	@tools/part.sh test --sum

# What one runs after touching a kernel for GPUs.
test-kernels: packages-build+test cuda-toolkit ## the tests of the kernels for GPUs, without one: emulated, as PTX, planted bugs
	@tools/part.sh test-kernels --begin
	@tools/part.sh test-kernels emulated $(MAKE) check-emulated
	@tools/part.sh test-kernels mutations $(MAKE) check-mutations
	@tools/part.sh test-kernels ptx $(MAKE) check-ptx
	@tools/part.sh test-kernels ptx-mutations $(MAKE) test-ptx-mutations
	@tools/part.sh test-kernels --sum

# All that takes longer than one waits.
test-deep: packages-build+test+fuzz+kit+mpi+network cuda-toolkit ## all other tests: machine code, programs on emulated cards, kills at file operations, several ranks, other processors, fuzzing, the release
	@tools/part.sh test-deep --begin
	@tools/part.sh test-deep gpu $(MAKE) check-gpu
	@tools/part.sh test-deep sass $(MAKE) check-sass
	@tools/part.sh test-deep profile $(MAKE) check-profile
	@tools/part.sh test-deep programs $(MAKE) check-cards
	@tools/part.sh test-deep ptx-t4 $(MAKE) check-ptx-t4
	@tools/part.sh test-deep instruction-sets $(MAKE) check-instruction-sets
	@tools/part.sh test-deep crashes $(MAKE) check-deep
	@tools/part.sh test-deep ranks $(MAKE) check-mpi
	@tools/part.sh test-deep gpus $(MAKE) check-nccl
	@tools/part.sh test-deep two-hosts $(MAKE) check-two-hosts
	@tools/part.sh test-deep without-a-model tools/take_away.sh --shared
	@tools/part.sh test-deep build tools/check_build.sh
	@tools/part.sh test-deep tarball tools/check_dist.sh
	@tools/part.sh test-deep contracts $(MAKE) check-changed-contracts
	@tools/part.sh test-deep release $(MAKE) check-release
	@tools/part.sh test-deep kit $(MAKE) check-kit
	@tools/part.sh test-deep fuzzing $(MAKE) fuzz FUZZ_SECONDS=3
	@tools/part.sh test-deep --sum

install: all ## copies programs, configurations and documents below PREFIX (/usr/local) of DESTDIR
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/train.c/configs $(DESTDIR)$(PREFIX)/share/doc/train.c
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 configs/*.yaml $(DESTDIR)$(PREFIX)/share/train.c/configs
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md $(DESTDIR)$(PREFIX)/share/doc/train.c

uninstall: ## removes what install has copied
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(PROGRAMS))
	rm -rf $(DESTDIR)$(PREFIX)/share/train.c $(DESTDIR)$(PREFIX)/share/doc/train.c

readme: ## writes the option tables of README.md and docs/ from the programs' own
	@$(MAKE) $(PARALLEL) GPU=none $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) tools/readme_options.sh

estimates: ## writes docs/ESTIMATES.md: the guides' claims beside what arithmetic gives
	@$(MAKE) $(PARALLEL) GPU=none $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/tools/estimates
	@BUILD=$(BUILD) $(BUILD)/tools/estimates >docs/ESTIMATES.md.tmp && mv docs/ESTIMATES.md.tmp docs/ESTIMATES.md || \
	    { rm -f docs/ESTIMATES.md.tmp; exit 1; }

clean: ## removes everything that was built or made by a demo
	rm -rf build $(PROGRAMS) demo/work

help: ## prints this list
	@echo "make TARGET [GPU=$(firstword $(PRESETS))|...|native|all|none] [BUILD=build/NAME] [PREFIX=/usr/local] [TOOLKIT=$(RELEASED_TOOLKIT)] [MPI=1] [V=1]"
	@sed -n 's/^\([a-z][a-z0-9.-]*\):.* ## \(.*\)/  \1\t\2/p' Makefile mk/*.mk | expand -t 24
	@echo "V=1: prints whole commands"
	@echo "TOOLKIT: the version of CUDA that releases are built with, and kernels tested: $(RELEASED_TOOLKIT), 11.8, 13.0"
	@echo "MPI=1: programs whose ranks on CPUs talk over MPI"
	@echo "GPU: a card of configs/gpu ($(PRESETS)), the one in this machine, all of them, or none"

FORCE:
.PHONY: all demo demo-psd demo-slm demo-many demo-bert demo-cv test test-kernels test-deep install uninstall readme estimates clean help FORCE
# Removes objects of other sources before make looks at any, `make -n` too.
ifneq ($(filter-out help clean uninstall,$(or $(MAKECMDGOALS),all)),)
$(shell tools/forget_stale.sh $(BUILD) $(ROOMS) tests tools $(PROGRAMS:%=%.c))
endif
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
