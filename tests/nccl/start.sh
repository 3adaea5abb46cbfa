#!/usr/bin/env bash
# Starts the ranks of a program as a launcher would, each with the variables of that launcher:
#   tests/nccl/start.sh torchrun|slurm|openmpi N FOLDER PROGRAM [ARGUMENTS...]
# Writes the number of each process to FOLDER/pid.RANK and its exit status to FOLDER/status.RANK. Ends when all have ended, with
# the largest status.
set -u
launcher=$1 ranks=$2 folder=$3
shift 3
port=$((20000 + $$ % 12000))

# Prints the variables of a rank.
variables() {
    case $launcher in
    torchrun) echo "RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID=$$ MASTER_ADDR=127.0.0.1 MASTER_PORT=$port" ;;
    slurm) echo "SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_STEP_NUM_TASKS=$ranks SLURM_STEP_TASKS_PER_NODE=$ranks SLURM_NODEID=0 SLURM_JOB_ID=$$ SLURM_STEP_ID=0" ;;
    openmpi) echo "OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_SIZE=$ranks OMPI_COMM_WORLD_LOCAL_SIZE=$ranks PMIX_NAMESPACE=$$" ;;
    *) echo "start.sh: $launcher is no launcher that it knows" >&2; exit 2 ;;
    esac
}

for ((rank = 0; rank < ranks; rank++)); do
    (
        read -ra set_here <<<"$(variables "$rank")"
        env "${set_here[@]}" "$@" &
        echo $! >"$folder/pid.$rank"
        wait $!
        echo $? >"$folder/status.$rank"
    ) &
done
wait
sort -n "$folder"/status.* | tail -n 1 | { read -r most && exit "$most"; }
