#!/usr/bin/env bash
# Tests tools/gpu_kit/run.sh without a GPU: a kit whose programs are scripts, one of which fails, one hangs, one crashes, on a
# machine without python3, compute-sanitizer, ncu and nvidia-smi, and on one that has them; then a packed kit:
#   TRAINC_NCCL=LIBRARY tests/kit/kit.sh KIT      the folder of one whose programs are those of the emulated card, and a stand-in for NCCL
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kit=$work/kit
bad=0 good=0

mkdir -p "$kit"/{bin,lib,libc,reference,text} "$work"/{machine,tools}
cp "$root/tools/gpu_kit/run.sh" "$kit"
echo text >"$kit/text/a.txt"
echo 2.17 >"$kit/libc/version"
cat >"$work/program" <<'PROGRAM'
#!/bin/sh
case ${0##*/} in
test_attention) echo "ERROR: 1 is not 2"; exit 1 ;;
test_linear) exec sleep 600 ;;
test_conv3d) kill -SEGV $$ ;;
test_wrappers) [ ! "$BROKEN_WRAPPERS" ] || exit 1 ;;
train_slm)
    case $1 in prepare | --version) exit 0 ;; esac
    while [ "$1" != -o ]; do shift; done
    mkdir -p "$2/last"
    echo "weights${DIFFERENT:+ of $2}" >"$2/last/model.safetensors"
    ;;
esac
echo "[  PASSED  ] 3 test(s)."
PROGRAM
# The kit's loader, for a machine with an older C library, and the tools that a machine may have: each runs the program that
# follows its options.
cat >"$work/runner" <<'RUNNER'
#!/bin/sh
[ "$1" != -c ] || exit # python3 -c: no folders
echo "run by ${0##*/}"
while [ $# -gt 0 ]; do
    case $1 in */bin/*) exec "$@" ;; esac
    shift
done
RUNNER
chmod +x "$work/program" "$work/runner"
for name in test_{wrappers,attention,linear,conv3d,stem,operations,program_gpt} train_gpt train_slm bench_step; do
    cp "$work/program" "$kit/bin/$name"
done
cp "$work/runner" "$kit/libc/ld-linux-x86-64.so.2"
for name in compute-sanitizer ncu python3 nvidia-smi; do cp "$work/runner" "$work/tools/$name"; done
for name in awk bash cat cmp cp cut date dirname env free getconf grep gzip head ls mkdir nproc printf rm sed sh sleep sort tail tar tee timeout uname xargs; do
    ln -s "$(command -v "$name")" "$work/machine/$name"
done

# run NAME STAGES [VARIABLE=VALUE...]: sets `status` and `results`.
run() {
    local name=$1 stages=$2
    shift 2
    # shellcheck disable=SC2086 # several stages
    env -i PATH="$work/machine" LIMIT=14 JOBS=4 OUT="$work/$name" "$@" bash "$kit/run.sh" $stages >"$work/$name.log" 2>&1
    status=$?
    results=$(cat "$work/$name/results.txt")
}
# expect WHAT STATUS WORDS...: each of the words must be in the results.
expect() {
    local what=$1 wanted=$2 words missing=0
    shift 2
    [ "$status" -eq "$wanted" ] || { echo "kit: $what: exit status $status, expected $wanted" >&2; missing=1; }
    for words in "$@"; do
        grep -qE -- "$words" <<<"$results" || { echo "kit: $what: '$words' is not in the results" >&2; missing=1; }
    done
    if [ "$missing" -eq 0 ]; then good=$((good + 1)); else bad=$((bad + 1)); printf '%s\n' "$results" >&2; fi
}

run bare "1 2 3 4 5" HEARTBEAT=2
grep -q 'running:.*test_linear' "$work/bare.log" || { echo "kit: what runs is not named" >&2; bad=$((bad + 1)); }
expect "a bare machine" 1 'ok   wrappers' 'BAD  test_attention, status 1' 'ERROR: 1 is not 2' 'BAD  test_linear, not done after 1[0-4] s' \
    'BAD  test_conv3d, status 139' 'ok   test_stem' 'SKIPPED nvidia-smi' 'ok   test_program_gpt' 'ok   own_test_program_gpt' \
    'ok   the same bits twice' 'SKIPPED bench: python3 is not installed' '== stage 1 done' '== stage 2 done' '== stage 3 done' '== stage 4 done' \
    'SKIPPED several cards: this machine has no two' '== stage 5 done'
[ -x /usr/local/cuda/bin/compute-sanitizer ] || expect "no compute-sanitizer" 1 'SKIPPED memcheck_wrappers: compute-sanitizer is not installed'
compgen -G '/opt/nvidia/nsight-compute/*/ncu' >/dev/null || expect "no ncu" 1 'SKIPPED ncu of adamw: ncu is not installed'
for stage in 1 2 3; do [ -s "$work/bare/logs_$stage.tgz" ] || { echo "kit: no logs of stage $stage" >&2; bad=$((bad + 1)); }; done

rm "$kit"/bin/test_{linear,attention,conv3d}
run tools "1 2 3 4" PATH="$work/tools:$work/machine"
expect "a machine with all tools" 1 'ok   memcheck_wrappers' 'BAD  memcheck_attention' 'ok   bench' 'ok   ncu_adamw'
run old "1 3" PATH="$work/tools:$work/machine" WORK="$work/elsewhere"
expect "all good" 0 'ok   test_stem' 'ok   the same bits twice'
echo 99.0 >"$kit/libc/version"
run old 1 PATH="$work/tools:$work/machine"
expect "an older C library" 0 'ok   test_stem'
grep -q 'started by: .*libc/ld-linux' "$work/old/facts.txt" || { echo "kit: the kit's C library is not used" >&2; bad=$((bad + 1)); }
echo 2.17 >"$kit/libc/version"
run broken 1 BROKEN_WRAPPERS=1
expect "broken wrappers" 1 'BAD  wrappers' 'the results below mean nothing' 'ok   test_stem'
run different 3 DIFFERENT=1
expect "different bits" 1 'BAD  two runs differ'
run short 3 LIMIT=5
expect "no time" 0 'SKIPPED slm_a: no time left' 'SKIPPED the same bits twice'
if bash "$kit/run.sh" 6 >"$work/log" 2>&1; then echo "kit: stage 6 is accepted" >&2; bad=$((bad + 1)); fi

# ---- real programs ----

if [ $# -gt 0 ]; then
    tar -xJf "$root/$1.tar.xz" -C "$work"
    kit=$work/$(basename "$1")
    run emulated "1 2 3 5" LIMIT=300 SANITIZER= TEST_FILTER=memory_is_as_planned EMULATE_DEVICES=2 TRAINC_NCCL="$TRAINC_NCCL" \
        SHARED="--size tiny --context 32 -b 2 --max-steps 10" \
        TRAINED="--size tiny --context 32 -b 2 -g 1 --max-steps 2 --max-val-batches 2"
    expect "programs of the emulated card" 0 'ok   version' 'ok   wrappers' 'ok   test_scratch' 'ok   test_program_psd, .*PASSED  \] 1 test' \
        'ok   2 cards, NCCL 2\.[0-9.]*: /' 'link of 2 cards: [0-9.]+ GB/s' ' 2 cards: [0-9]+ tokens/s, a step [0-9.]+ ms, [0-9.]+ times as fast as one card .*predicted [0-9.]+ ms.*--link' \
        'ok   losses of 2 cards' 'ok   zero: the same bits' 'ok   again: the same bits' 'ok   killed: the same bits' \
        'ok   own_test_program_psd' 'ok   prepare' 'ok   slm_own' 'ok   the same bits twice' 'SKIPPED bench: python3 is not installed'
fi
echo "kit: $good results as expected, $bad not"
exit $((bad > 0))
