#!/usr/bin/env bash
# Runs on the machine with the GPU, from the folder that `make gpu-kit` has packed. It needs the driver; python3 with torch,
# compute-sanitizer and ncu are used if they are there.
#   run.sh [STAGE...]     without arguments: all five
#   1  the card, its driver and libraries; the wrappers of inline PTX; the tests of every kernel
#   2  whole programs with NVIDIA's libraries and without; memcheck
#   3  the text GPT trained twice (the same bits?); steps of all models beside PyTorch; measured beside predicted
#   4  counters of the heaviest kernels
#   5  two cards and all that there are: their link; a training beside the same on one card; the same bits with --zero 1 and again; a
#      rank that is killed, and the run that goes on
# OUT=FOLDER: where results go (gpu_kit_results). LIMIT=SECONDS: the time of each stage (560). TRAINED=OPTIONS: what is trained,
# SHARED=OPTIONS: by several cards.
# SANITIZER=FILE: compute-sanitizer, none if empty. HEARTBEAT=SECONDS: how often what runs is named (30). A stage never stops at the first
# failure: results.txt has a line with ok, BAD or SKIPPED for each result; the logs are beside it. Exit status 1 if there is a BAD.
# shellcheck disable=SC2010,SC2012,SC2013,SC2016,SC2086 # names without spaces, commands of several words
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-gpu_kit_results} limit=${LIMIT:-560}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
work=${WORK:-$out/work}
for stage in "$@"; do
    case $stage in [1-5]) ;; *) echo "run.sh: there is no stage '$stage': 1 to 5 are known" >&2; exit 2 ;; esac
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

# Trains on so many cards with the micro-batches of all: share NAME CARDS [OPTIONS...]
share() {
    local name=shared_$1 cards=$2
    shift 2
    share_choices "$work"/{shared_1,"$name"}
    try "$name" 150 $start "$here/bin/train_slm" $shared -g $((micro_batches / cards)) --gpus "$cards" -o "$work/$name" "$@"
}
shared_log() { sed -n "s|.*\"kind\": \"$2\", \"step\": \([0-9]*\),.*\"$3\": \([^,}]*\).*|\1 \2|p" "$work/shared_$1/log.jsonl"; }

# Says how fast so many cards were, beside one card and the estimate.
say_speed() {
    local cards=$1 options=$2 one seconds tokens predicted
    one=$(shared_log 1 summary summary/step_seconds | cut -d ' ' -f 2)
    seconds=$(shared_log "$cards" summary summary/step_seconds | cut -d ' ' -f 2)
    tokens=$(sed -n 's/^ *"\(tokens_seen\|step\)": \([0-9]*\),/\2/p' "$work/shared_$cards/last/state.json" | awk '{n[NR] = $1} END {print n[2] / n[1]}')
    predicted=$($start "$here/bin/train_slm" $shared -g $((micro_batches / cards)) $options --estimate --gpu here \
        --calibration "$work/rates.json" --json 2>"$work/predicted_$cards.log" | sed -n 's/^ *"step_seconds": \([^,]*\),/\1/p')
    say "     $cards card$([ "$cards" = 1 ] || echo s): $(awk -v s="$seconds" -v one="$one" -v n="$cards" -v tokens="$tokens" -v p="${predicted:-0}" 'BEGIN {
        printf "%.0f tokens/s, a step %.1f ms", tokens / s, 1000 * s
        if (n > 1) printf ", %.2f times as fast as one card (%.0f %%)", one / s, 100 * one / s / n
        if (p > 0) printf "; predicted %.1f ms, measured / predicted %.2f", 1000 * p, s / p
    }')${options:+ ($options)}"
}

# Kills rank 1 of a training, which must be named, and lets the run go on.
kill_a_rank() {
    local job status process log=$work/killed_ranks.log
    local train="$start $here/bin/train_slm $shared -g $((micro_batches / 2)) --gpus 2 -o $work/shared_killed"
    $train >"$log" 2>&1 &
    job=$!
    until grep -qs '"step": 3,' "$work/shared_killed/log.jsonl" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
    for process in $(grep -ls "^PPid:[[:space:]]*$job\$" /proc/[0-9]*/status); do
        process=${process%/status}
        ! grep -qszx RANK=1 "$process/environ" || kill -9 "${process#/proc/}"
    done
    wait $job
    status=$?
    cat "$log"
    [ $status -eq 137 ] || { echo "ERROR: status $status, expected 137"; return 1; }
    grep -q 'rank 1 (host .*has ended without a word; the job ends' "$log" || { echo "ERROR: rank 1 is not named"; return 1; }
    $train --resume auto
}
export -f kill_a_rank

stage_5() {
    local cards link counts far
    if ! try cards 60 $start "$here/bin/train_slm" --version; then return; fi
    cards=$(sed -n 's/^ *\([0-9]*\) GPUs: .*/\1/p' "$work/cards.log")
    if [ "${cards:-1}" -lt 2 ]; then
        say "SKIPPED several cards: this machine has no two"
        return
    fi
    if ! grep -q '^ *NCCL  *[0-9]' "$work/cards.log"; then
        say "BAD  $(grep '^ *NCCL ' "$work/cards.log" || echo "NCCL: not in --version")"
        return
    fi
    say "ok   $cards cards, $(sed -n 's/^ *\(NCCL\)  */\1 /p' "$work/cards.log")"
    nvidia-smi topo -m >"$out/topology.txt" 2>&1
    if [ ! -d "$work/prepared" ]; then
        mkdir -p "$work/text" && cp "$here"/text/*.txt "$work/text"
        try prepare 60 $start "$here/bin/train_slm" prepare --input "$work/text" --output "$work/prepared" --vocabulary 2048 || return
    fi
    export shared micro_batches=$((2 * cards))
    shared="--data $work/prepared --device cuda --vocabulary 0 --dropout 0.1 --amp --val-interval 0 --max-val-batches 2"
    shared+=" --sample-tokens 0 --log-interval 1"
    shared+=" ${SHARED:---size slm -b 16 --context 1024 --max-steps 12}"
    try calibrate 90 $start "$here/bin/train_slm" --calibrate --device cuda --calibration "$work/rates.json"
    share 1 1 || return
    say_speed 1 ""
    counts=2
    [ "$cards" -eq 2 ] || counts="$cards 2"
    for cards in $counts; do
        try "link_$cards" 90 $start "$here/bin/bench_step" link --gpus "$cards" --device cuda
        link=$(sed -n 's/^link //p' "$work/link_$cards.log")
        say "     link of $cards cards: ${link:-not measured} GB/s"
        share "$cards" "$cards" || continue
        say_speed "$cards" "--gpus $cards${link:+ --link $link}"
        far=$(awk 'NR == FNR {one[$1] = $2; next} {d = ($2 - one[$1]) / one[$1]; d = d < 0 ? -d : d; most = d > most ? d : most; n++}
            END {print n ? most : 1}' <(shared_log 1 train train/loss) <(shared_log "$cards" train train/loss))
        say "$(awk -v far="$far" 'BEGIN {print far < 1e-3 ? "ok  " : "BAD "}') losses of $cards cards differ by at most $far from those of one"
    done
    for run in zero again killed; do
        case $run in
        zero) share zero 2 --zero 1 ;;
        again) share again 2 ;;
        killed) share_choices "$work"/shared_{1,killed} && try shared_killed 200 bash -c kill_a_rank ;;
        esac || continue
        if cmp "$work"/shared_{2,$run}/last/model.safetensors; then say "ok   $run: the same bits"; else say "BAD  $run: other bits"; fi
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

[ $# -gt 0 ] || set -- 1 2 3 4 5
for number in "$@"; do
    began=$EPOCHSECONDS
    say "== stage $number"
    "stage_$number"
    [ -z "$(ls "$work")" ] || (cd "$work" && tar czf "$out/logs_$number.tgz" ./*.log)
    say "== stage $number done"
done
! grep -q '\] BAD' "$results"
