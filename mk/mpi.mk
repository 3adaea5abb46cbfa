# With MPI=1 the ranks of a training on CPUs talk over MPI (kernels/cpu/mpi.c). Such programs, in a folder of their own, start
# only where that MPI is; no other program is linked with it. Its flags are those of the mpicc in PATH, which belongs to the
# mpirun there (MPICC names another), or else those that pkg-config knows. Both Open MPI and MPICH understand -show.
MPICC ?= mpicc
MPI_TESTS = $(BUILD)/tests/mpi/test_group_mpi $(BUILD)/tests/mpi/test_leaving
# They run programs over MPI and are linked without it.
RANKS_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/mpi/test_*.c))
MPI_PROGRAMS = $(PROGRAMS:%=$(ON_GPU)/mpi/%)

ifeq ($(MPI),1)
MPI_SHOWN := $(shell $(MPICC) -show 2>/dev/null || pkg-config --cflags --libs ompi-c 2>/dev/null || pkg-config --cflags --libs mpich 2>/dev/null)
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(filter -I%,$(MPI_SHOWN)))
MPI_LIBS := $(filter -L% -l% -Wl$(comma)%,$(MPI_SHOWN))
$(if $(filter -l%,$(MPI_LIBS)),,$(error MPI=1 needs MPI, which was not found by $(MPICC) and pkg-config (ompi-c, mpich). On Debian and Ubuntu this installs libopenmpi-dev and openmpi-bin, if neither they nor libmpich-dev and mpich are there: tools/install_packages.sh mpi))
MPI_OBJECT = $(BUILD)/kernels/cpu/mpi.o

$(call text,$(BUILD)/mpi/flags,$(MPI_CFLAGS) $(MPI_LIBS))
$(MPI_OBJECT): CFLAGS += $(MPI_CFLAGS)
$(MPI_OBJECT): $(BUILD)/mpi/flags

# The object comes before the archive, whose kernels/mpi_absent.c is then not taken.
$(foreach p,$(PROGRAMS),$(call members,$(ON_GPU)/mpi/$p,$(call objects_of,$p)))
$(MPI_PROGRAMS): $(PRESET_DEFAULTS) $(MPI_OBJECT) $(CUDA_DEVICE) $(BUILD)/libtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $(TAKE_CUDA) $(LINKED) -o $@ $(CUDA_LIBS) $(LDLIBS) $(MPI_LIBS)

$(MPI_TESTS) $(BUILD)/tests/mpi/leaver: %: %.o $(BUILD)/tests/mpi/rig.o $(MPI_OBJECT) $(BUILD)/libtests.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(if $(findstring /test_,$@),$(CMOCKA)) $(LDLIBS) $(MPI_LIBS)
$(RANKS_TESTS): %: %.o $(BUILD)/libtests.a $(BUILD)/libtrain.a
	$(call say,LINK,$@)$(LINK) $(LINKED) -o $@ $(CMOCKA) $(LDLIBS)
mpi-tests: $(MPI_TESTS) $(BUILD)/tests/mpi/leaver $(RANKS_TESTS) $(MPI_PROGRAMS) $(PROGRAMS:%=$(BUILD)/%)
endif

check-mpi: packages-build+test+mpi ## ranks over MPI: operations between 1 to 4 ranks, trainings of all models, and ranks that end early
	@$(MAKE) $(PARALLEL) GPU=none MPI=1 mpi-tests
	@for ranks in 1 2 3 4; do \
	    echo "$$ranks ranks:"; tools/run_mpi.sh $$ranks $(BUILD)/tests/mpi/test_group_mpi || exit; \
	done
	@BUILD=$(BUILD) tools/run_tests.sh $(BUILD)/tests/mpi/test_leaving $(RANKS_TESTS)

# Those of them that train on several ranks.
check-mpi-trainings:
	@$(MAKE) $(PARALLEL) GPU=none MPI=1 mpi-tests
	@BUILD=$(BUILD) tools/run_tests.sh $(filter %/test_ranks,$(RANKS_TESTS))

.PHONY: mpi-tests check-mpi check-mpi-trainings
