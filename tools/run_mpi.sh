#!/usr/bin/env bash
# Runs N ranks of a program over MPI on this machine, also as root and on fewer than N cores:
#   tools/run_mpi.sh N PROGRAM [ARGUMENTS...]
# MPIRUN names another mpirun than that in PATH. Open MPI refuses root and more ranks than cores, and binds all threads of a
# rank to one core, unless it is told otherwise; MPICH does none of this and does not know the options.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 N PROGRAM [ARGUMENTS...]" >&2; exit 2; }
mpirun=${MPIRUN:-mpirun}
command -v "$mpirun" >/dev/null || { echo "$0: $mpirun was not found. On Debian and Ubuntu this installs it: tools/install_packages.sh mpi" >&2; exit 1; }
options=()
case $("$mpirun" --version 2>&1) in
*"Open MPI"* | *OpenRTE* | *PRRTE*)
    options=(--oversubscribe --bind-to none)
    # Containers may forbid a process to read another's memory, which Open MPI then complains of.
    export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism-none}
    [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
    ;;
esac
exec "$mpirun" "${options[@]}" -n "$@"
