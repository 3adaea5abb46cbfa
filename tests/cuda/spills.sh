#!/usr/bin/env bash
# Reads the ptxas output for every kernel (the .ptxas files beside the objects of a build) and fails if one keeps registers in
# memory, but for the exceptions below.
#   tests/cuda/spills.sh build/release/gpu_all
set -eu
# architecture, kernel, the bytes that it may store at most
exceptions() {
    cat <<'LIST'
# A head's dK and dV are 128 of Turing's 255 registers, and without asynchronous copies tiles pass through others.
sm_75 attention_backward_kernel<__half, 128, 4, false> 20
sm_75 attention_backward_kernel<__half, 128, 4, true> 24
# Two registers too few beside dropout's, once a tile.
sm_80 attention_backward_kernel<__nv_bfloat16, 128, 4, true> 8
# These want more shared memory than Turing has: never launched there.
sm_75 attention_backward_kernel<__half, 128, 8, false> 16
sm_75 attention_backward_kernel<__half, 128, 8, true> 20
# One register too few with CUDA 12.4; 13.0 keeps all.
sm_90 attention_forward_fma_kernel<__nv_bfloat16, 64, 8> 4
sm_90 attention_forward_fma_kernel<float, 64, 8> 4
sm_90 forward<__half, 8, true, false> 4
sm_90 forward<__nv_bfloat16, 8, true, false> 4
# The same on a V100, and ten in one kernel.
sm_70 add_parts<__nv_bfloat16, 4> 4
sm_70 add_parts<__half, 4> 4
sm_70 stem_backward_kernel<__half, 64> 40
sm_70 finish_statistics<__half> 4
sm_70 finish_statistics<__nv_bfloat16> 4
sm_70 normalize<__nv_bfloat16, 8, false> 4
# CUDA 13.0 keeps to 32 registers on Blackwell, two too few once a thread.
sm_100 add_parts<float, 4> 8
LIST
}

[ -n "$(find "$1" -name '*.ptxas' -print -quit)" ] || { echo "spills: no report of ptxas in $1" >&2; exit 1; }
find "$1/kernels" -name '*.ptxas' -exec cat {} + | awk -F "'" '
    /Compiling entry function/ { kernel = $2; card = $4; kernels++ }
    /bytes spill stores/ { split($0, words, " "); print card, words[5], kernel; lines++ }
    END { if (!kernels || lines < kernels) { print "the reports are not complete" > "/dev/stderr"; exit 1 } }' | c++filt |
    awk '
    NR == FNR { if (!/^#/) { bytes = $NF; sub(/ [0-9]+$/, ""); allowed[$0] = bytes } next }
    {
        kernels++; cards[$1]
        if (!$2) next
        name = $0; sub(/^[^ ]+ [0-9]+ (void )?/, "", name); gsub(/\(anonymous namespace\)::/, "", name); sub(/\(.*/, "", name)
        key = $1 " " name
        if (key in allowed && $2 <= allowed[key]) { excepted++; next }
        printf "spills: %s stores %d bytes%s\n", key, $2, key in allowed ? ", " allowed[key] " are known" : ""
        bad++
    }
    END {
        for (card in cards) n_cards++
        if (kernels < 100) { print "spills: only " kernels + 0 " kernels were reported"; bad++ }
        printf "spills: %d kernels for %d architectures, %d known to spill, %d more\n", kernels, n_cards, excepted, bad
        exit bad > 0
    }' <(exceptions) -
