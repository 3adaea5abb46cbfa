#!/usr/bin/env bash
# Compares the outputs of the kernels, compiled for the CPU and as nvcc's PTX, bit by bit:
#   tests/cuda/compare_bits.sh FOLDER PTX_FOLDER TEST...     the folders of test programs: build/release build/release/ptx_unfused
# The PTX is built with -fmad=false: joining a product with a sum is the compiler's choice, and changes the last bit.
# What remains must be equal, save outputs of operations that are listed in inexact_bits.txt, with the reason.
set -u
export CHECK_SCHEDULES=1 # the bits are those of the first
here=$(dirname "$0")
folder=$1 ptx=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for test in "$@"; do
    OUTPUT_BITS=$work/compiled "$folder/$test" >"$work/log_compiled" 2>&1 &
    OUTPUT_BITS=$work/ptx "$ptx/$test" >"$work/log_ptx" 2>&1 || { tail -n 20 "$work/log_ptx" >&2; exit 1; }
    wait $! || { tail -n 20 "$work/log_compiled" >&2; exit 1; }
    sed -i '/ in f16: /d' "$work/compiled" # this PTX has no f16
    [ "$(wc -l <"$work/compiled")" -eq "$(wc -l <"$work/ptx")" ] || { echo "$test: not as many outputs" >&2; exit 1; }
    paste -d'|' "$work/compiled" "$work/ptx" | sed "s/^/${test##*/}: /"
    rm "$work/compiled" "$work/ptx"
done >"$work/all" || exit 1
sed -E '/^#|^$/d; s/ because .*//' "$here/inexact_bits.txt" >"$work/inexact"
awk -F'|' -v inexact="$work/inexact" '
    BEGIN { while ((getline line <inexact) > 0) patterns[line] = 0 }
    {
        first = $1
        sub(/^[^:]*: /, "", first)
        name = first
        sub(/: [0-9a-f]*$/, "", name)
        total++
        known = ""
        for (p in patterns) if (name ~ "^(" p ")( in |$)") known = p
        if (first == $2) { equal++; if (known != "") same[known]++; next }
        if (known != "") { patterns[known]++; differ++; next }
        print "other bits: " $1
        failed = 1
    }
    END {
        for (p in patterns) if (!patterns[p]) { print "inexact_bits.txt: nothing differs in \"" p "\""; failed = 1 }
        printf "%d outputs: %d with the same bits, %d in which the two may differ and do\n", total, equal, differ
        exit failed || !total
    }' "$work/all"
