#!/usr/bin/env bash
# Runs on the machine with the GPU, from the folder that `make gpu-kit` has packed. It needs the driver; python3 with torch,
# compute-sanitizer and ncu are used if they are there.
#   run.sh [STAGE...]     without arguments: all four
#   1  the card, its driver and libraries; the wrappers of inline PTX; the tests of every kernel
#   2  whole programs with NVIDIA's libraries and without; memcheck
#   3  the text GPT trained twice (the same bits?); steps of all models beside PyTorch; measured beside predicted
#   4  counters of the heaviest kernels
# OUT=FOLDER: where results go (gpu_kit_results). LIMIT=SECONDS: the time of each stage (560). TRAINED=OPTIONS: what is trained.
# SANITIZER=FILE: compute-sanitizer, none if empty. HEARTBEAT=SECONDS: how often what runs is named (30). A stage never stops at the first
# failure: results.txt has a line with ok, BAD or SKIPPED for each result; the logs are beside it. Exit status 1 if there is a BAD.
# shellcheck disable=SC2010,SC2012,SC2016,SC2086 # names without spaces, commands of several words
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-gpu_kit_results} limit=${LIMIT:-560}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
work=${WORK:-$out/work}
for stage in "$@"; do
    case $stage in [1-4]) ;; *) echo "run.sh: there is no stage '$stage': 1, 2, 3 and 4 are known" >&2; exit 2 ;; esac
done
rm -rf "$work"
mkdir -p "$work"
began=$EPOCHSECONDS
results=$out/results.txt
: >"$results"

say() { printf '[%3d s] %s\n' $((EPOCHSECONDS - began)) "$*" | tee -a "$results"; }
left() { echo $((limit - (EPOCHSECONDS - began))); }

# The libraries of the machine where the kit was packed. Programs run under its C library only where this machine's is older.
folders=$(python3 -c 'import os, site
for base in site.getsitepackages() + [site.getusersitepackages()]:
    for root in ("nvidia/cu13/lib", "nvidia/cu12/lib", "nvidia/cublas/lib", "nvidia/cudnn/lib"):
        path = os.path.join(base, root)
        if os.path.isdir(path): print(path, end=":")' 2>/dev/null)
libraries=$here/lib:$folders/usr/local/cuda/lib64:/usr/local/nvidia/lib64:/usr/local/nvidia/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
needed=$(cat "$here/libc/version")
found=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* //')
if [ "$(printf '%s\n' "$needed" "${found:-0}" | sort -V | head -n 1)" = "$needed" ]; then
    start="env LD_LIBRARY_PATH=$libraries"
else
    start="$here/libc/ld-linux-x86-64.so.2 --library-path $here/libc:$libraries:/usr/lib/x86_64-linux-gnu"
fi
export BUILD=$here/bin # the programs that prepare data for tests
export GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} start work out here
tests=$(cd "$here/bin" && ls -d test_* | grep -v -e '^test_program' -e '^test_wrappers' -e '^test_operations' -e '^test_ptx')

# Runs a command for at most so many seconds; its log is NAME.log. Prints and keeps one line, and the end of the log of a failure.
try() {
    local name=$1 most=$2 status began_here=$EPOCHSECONDS log=$work/$1.log rest
    shift 2
    rest=$(left)
    most=$((most < rest ? most : rest))
    if [ "$rest" -lt 10 ]; then
        say "SKIPPED $name: no time left"
        return 1
    fi
    : >"$work/$name.running"
    timeout -k 5 "$most" "$@" >"$log" 2>&1 </dev/null
    status=$?
    rm "$work/$name.running"
    # One print for a whole result: others write at the same time.
    if [ $status -eq 0 ]; then
        say "ok   $name, $((EPOCHSECONDS - began_here)) s: $(grep -aE '^\[  PASSED|tokens/s|steps/s' "$log" | tail -n 1 | cut -c 1-150)"
    else
        say "BAD  $name, $([ $status -eq 124 ] && echo "not done after $most s" || echo "status $status"), $((EPOCHSECONDS - began_here)) s
$({ grep -aE 'ERROR|error:|Error|FAILED|has failed|died' "$log" || tail -n 5 "$log"; } | head -n 14 | cut -c 1-240)"
    fi
    return $status
}
export -f say left try
export began limit results

# Runs tests of bin/ or of another folder, so many at a time.
run_tests() {
    local folder=$1 jobs=$2 most=$3 label=$4
    shift 4
    printf '%s\n' "$@" | xargs -P "$jobs" -I TEST bash -c 'try "$1$2" "$3" $start "$4/$2"' run_tests "$label" TEST "$most" "$folder"
}

stage_1() {
    {
        nvidia-smi
        nvidia-smi -q -d CLOCK,POWER,ECC,PERFORMANCE,COMPUTE
        nvcc --version
        ldconfig -p | grep -E 'libcuda|nvidia-ml|cublas|cudnn|nccl'
        echo "folders of Python's packages: $folders"
        echo "started by: $start"
        nproc
        free -g
        uname -a
        cat /etc/os-release
    } >"$out/facts.txt" 2>&1
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv,noheader | tee -a "$results"
    else
        say "SKIPPED nvidia-smi: it is not installed"
    fi
    GPU_PROGRAMS="$start $here/bin" try version 60 $start "$here/bin/train_gpt" --version
    tail -n 6 "$work/version.log" | tee -a "$results"
    try wrappers 90 $start "$here/bin/test_wrappers" || say "BAD  the wrappers of inline PTX fail: the results below mean nothing"
    run_tests "$here/bin" "${JOBS:-4}" 150 "" $tests
}

stage_2() {
    local sanitizer programs
    programs=$(cd "$here/bin" && ls -d test_program_*)
    export GPU_PROGRAMS="$start $here/bin"
    run_tests "$here/bin" "${JOBS:-4}" 200 "" $programs
    TRAINC_CUBLASLT=none TRAINC_CUDNN=none run_tests "$here/bin" "${JOBS:-4}" 200 own_ $programs
    sanitizer=${SANITIZER-$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)}
    for name in wrappers attention linear conv3d; do
        if [ -n "$sanitizer" ]; then
            try "memcheck_$name" 100 "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 $start "$here/bin/test_$name"
        else
            say "SKIPPED memcheck_$name: compute-sanitizer is not installed"
        fi
    done
}

# Gives a run what another one chose by timing, which decides last bits: share_choices FROM TO
share_choices() {
    mkdir -p "$2"
    [ ! -f "$1/choices.txt" ] || cp "$1/choices.txt" "$2"
}

stage_3() {
    local common text=$work/text
    mkdir -p "$text" && cp "$here"/text/*.txt "$text"
    try prepare 60 $start "$here/bin/train_slm" prepare --input "$text" --output "$work/prepared" --vocabulary 2048
    common="--data $work/prepared --device cuda --vocabulary 0 --dropout 0.1 --amp --log-interval 20"
    common+=" ${TRAINED:---size slm -b 16 -g 2 --context 1024 --max-steps 60}"
    if try slm_a 90 $start "$here/bin/train_slm" $common -o "$work/run_a" && share_choices "$work"/run_{a,b} &&
        try slm_b 90 $start "$here/bin/train_slm" $common -o "$work/run_b"; then
        if cmp "$work"/run_{a,b}/last/model.safetensors; then say "ok   the same bits twice"; else say "BAD  two runs differ"; fi
    else
        say "SKIPPED the same bits twice: a run is missing"
    fi
    TRAINC_CUBLASLT=none try slm_own 90 $start "$here/bin/train_slm" $common -o "$work/run_own"
    if ! command -v python3 >/dev/null; then
        say "SKIPPED bench: python3 is not installed"
        return
    fi
    BENCH_SECONDS=$(($(left) * 2 / 3)) BENCH_START=$start try bench "$(left)" \
        python3 "$here/reference/bench_gpu.py" "$here/bin/bench_step" "$out" ${WORD:-}
    tail -n 80 "$work/bench.log" | cut -c 1-220
}

stage_4() {
    local ncu
    ncu=$(command -v ncu || ls /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1)
    for kernel in attention_forward_kernel attention_backward_kernel 'normalize|gradients' adamw cross_entropy gemm_kernel; do
        if [ -z "$ncu" ]; then
            say "SKIPPED ncu of $kernel: ncu is not installed"
            continue
        fi
        TRAINC_CUBLASLT=none try "ncu_${kernel%%|*}" 80 "$ncu" --clock-control none -k "regex:$kernel" -s 6 -c 2 --section SpeedOfLight \
            --section MemoryWorkloadAnalysis --section Occupancy $start \
            "$here/bin/bench_step" slm 1024 -b 16 --device cuda --amp --max-steps 2
        grep -aE 'Duration|DRAM Throughput|Compute \(SM\)|Achieved Occ|L2 Hit' "$work/ncu_${kernel%%|*}.log" | head -n 10
    done
}

# Names each half minute what has not ended. Nothing waits for the sleeping process.
while sleep "${HEARTBEAT:-30}" >/dev/null 2>&1; do
    running=$(cd "$work" && printf '%s ' *.running)
    running=${running//.running/}
    [ "$running" = "* " ] || echo "        running: $running"
done &
heartbeat=$!
trap 'kill $heartbeat' EXIT

[ $# -gt 0 ] || set -- 1 2 3 4
for number in "$@"; do
    began=$EPOCHSECONDS
    say "== stage $number"
    "stage_$number"
    [ -z "$(ls "$work")" ] || (cd "$work" && tar czf "$out/logs_$number.tgz" ./*.log)
    say "== stage $number done"
done
! grep -q '\] BAD' "$results"
