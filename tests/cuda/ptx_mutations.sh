#!/usr/bin/env bash
# Tests the tests of the kernels, and the executor of PTX: plants each mistake of ptx_mutations.txt in the PTX that nvcc
# has made, on its way to the executor (EMULATE_PTX_FILTER), and runs the test that must fail.
#   tests/cuda/ptx_mutations.sh [PATTERN]     those whose line matches (grep -E)
#   tests/cuda/ptx_mutations.sh --tests       only prints the names of the test programs
# `make test-ptx-mutations` calls it with BUILD, CXX and CUDA_FLAGS, and builds the tests first. A line of the list that
# changes nothing, or whose test fails without it, is a mistake.
set -u
cd "$(dirname "$0")/../.." || exit 1
list() { grep -E '^(asm|nvcc|source) ' tests/cuda/ptx_mutations.txt; }
if [ "${1-}" = --tests ]; then
    list | awk -F'[ :@]+' '{print $2}' | sort -u
    exit
fi
export work=$BUILD/ptx/mutations BUILD CXX CUDA_FLAGS GOMP_SPINCOUNT=1000
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cuda/planted.sh
. tests/cuda/planted.sh

# planting SCOPE CHANGE: prints the program for sed -E that makes the change in a scope, and shows each line it changes.
planting() {
    cat <<SED
$1 {
s/^\x01//
h
$2
G
/^(.*)\n\1$/! {
s/^/planted: /
w /dev/stderr
s/^planted: //
}
s/\n.*//
}
SED
}

# What the C++ compiler of the compiled kernels sees of a gpu.h, with all that it includes.
seen_by_compiler() {
    local compiler flags
    read -ra compiler <<<"$CXX"
    read -ra flags <<<"$CUDA_FLAGS"
    "${compiler[@]}" -std=c++17 -E -P -I. "${flags[@]}" -x c++ "$1"
}

# check_strings FOLDER CHANGE: prints what is wrong with a mistake in strings of inline PTX: it must change strings of
# gpu.h, in the PTX nothing but instructions of these, and nothing that the C++ compiler sees.
check_strings() {
    planting '/\<asm( volatile)?\(/,/;$/' "$2" >"$1/gpu.sed"
    sed -E -f "$1/gpu.sed" "$work/gpu.h" >"$1/gpu.h" 2>"$1/gpu.changed"
    [ -s "$1/gpu.changed" ] || echo "changes no string of gpu.h"
    sed -n '/^planted: /{n;s/^\(@!\?%p[0-9]* \)\?\([^ ;]*\).*/\2/p}' "$1/log" | sort -u | while read -r name; do
        grep -qF -- "$name" "$1/gpu.changed" || echo "changes $name in the PTX, but not in gpu.h"
    done
    seen_by_compiler "$1/gpu.h" | cmp -s - "$work/gpu.seen" || echo "changes what the C++ compiler sees"
}

# Prints by what a mistake was noticed.
noticed_by() {
    if grep -q 'at line [0-9]* of the PTX' "$1"; then
        echo error # of the executor
    elif grep -q 'emulate: ' "$1"; then
        echo refusal # to read the text
    else
        echo result
    fi
}

# try NUMBER|KIND|TEST|FUNCTIONS|CHANGE; without a change the test must pass.
try() {
    local number kind test functions change folder verdict why=
    IFS='|' read -r number kind test functions change <<<"$1"
    folder=$work/$number
    mkdir "$folder"
    [[ $test != *@* ]] || export EMULATE_CARD=${test#*@}
    if [ -n "$change" ]; then
        # Control-A marks the lines of the functions.
        planting '/^\x01/' "$change" >"$folder/ptx.sed"
        cat >"$folder/mark.awk" <<AWK
/^[.a-z ]*\.(entry|func) / { marks = \$0 ~ /$functions/ }
{ print (marks ? "\001" : "") \$0 }
AWK
        export EMULATE_PTX_FILTER="awk -f $folder/mark.awk | sed -E -f $folder/ptx.sed"
    fi
    run_test "$BUILD/ptx" "${test%@*}" "$folder/log" 60
    if [ -z "$change" ]; then
        has_passed_alone "${test%@*}" "$folder/log" && return
        why="fails without any mistake, or is not the only test that runs"
    elif ! grep -q '^planted: ' "$folder/log"; then
        why="changes nothing"
    elif grep -q 'Test failed with exception' "$folder/log"; then
        why="the executor crashes"
    elif [ "$kind" = asm ]; then
        why=$(check_strings "$folder" "$change" | tr '\n' ' ')
    fi
    if [ -n "$why" ]; then
        verdict="MISTAKE: $why:"
    elif [ "$verdict" = caught ]; then
        verdict="caught by $(noticed_by "$folder/log")"
    fi
    printf '%-17s %-6s %s | %s |%s\n' "$verdict" "$kind" "$test" "$functions" "$change"
}
export -f planting seen_by_compiler check_strings noticed_by try

sed -zE 's/" *\n *"//g' kernels/cuda/gpu.h >"$work/gpu.h" # joins strings in two lines
seen_by_compiler "$work/gpu.h" >"$work/gpu.seen" || exit
list | grep -E -- "${1-}" | sed -E 's/ +\| ?/|/; s/ +\|/|/; s/^([a-z]+) +/\1|/' | awk '{print NR "|" $0}' >"$work/lines"
[ -s "$work/lines" ] || { echo "$0: no line of the list matches" >&2; exit 2; }
{
    awk -F'|' '!seen[$3]++ {print "none_" NR "||" $3 "||"}' "$work/lines"
    cat "$work/lines"
} >"$work/runs"
try_all
status=$?
noticed() { grep -c "^caught by $1 " "$work/verdicts"; }
of_kind() { cut -d'|' -f2 "$work/lines" | grep -c "$1"; }
echo "noticed: $(noticed refusal) by a refusal to read the PTX, $(noticed error) by an error of the executor," \
    "$(noticed result) by a wrong result"
echo "$(of_kind 'asm\|nvcc') of them are invisible to the kernels compiled for the CPU:" \
    "$(of_kind asm) in strings of inline PTX, $(of_kind nvcc) in what nvcc makes"
[ "$status" -eq 0 ]
