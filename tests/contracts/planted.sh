#!/usr/bin/env bash
# Tests the tests of this folder: with each mistake of planted.txt, and with every value of the *_functions.h changed, one
# must fail, and say what is wrong. mk/contracts.mk calls it with BUILD and with what compiles and links the contracts of one
# version: COMPILE, HEADERS (its own), TOOLKIT_HEADERS (those of the programs), LINK, LIBS.
set -u
cd "$(dirname "$0")/../.." || exit 1
libraries=kernels/cuda/libraries
export libraries work=$BUILD/tests/contracts/planted
rm -rf "$work"
mkdir -p "$work"

# build_and_run FOLDER CONTRACT FILE: with the FILE that lies in FOLDER instead of the true one.
build_and_run() {
    local folder=$1 contract=$2 file=$3 compiler real ours linker archives objects=("$1/contract.o")
    read -ra compiler <<<"${COMPILE/-I./-iquote $folder -I.}"
    read -ra real <<<"$HEADERS"
    read -ra ours <<<"$TOOLKIT_HEADERS"
    read -ra linker <<<"$LINK"
    read -ra archives <<<"$LIBS"
    "${compiler[@]}" "${real[@]}" "${ours[@]}" -c "tests/contracts/$contract.c" -o "$folder/contract.o" || return 1
    [ "$contract" != nvml ] || return 0 # there is nothing to run
    if [[ $file == *.c ]]; then
        "${compiler[@]}" "${ours[@]}" -c "$folder/$libraries/$file" -o "$folder/file.o" || return 1
        objects+=("$folder/file.o")
    fi
    "${linker[@]}" "${objects[@]}" "${archives[@]}" -o "$folder/contract" && "$folder/contract"
}

# try NUMBER|CONTRACT|FILE|CHANGE|WORDS: prints a line that begins with "caught" if the contract fails with these words; without
# a CHANGE, if it does not fail.
try() {
    local number contract file change words folder status verdict
    IFS='|' read -r number contract file change words <<<"$1"
    folder=$work/$number
    mkdir -p "$folder/$libraries"
    sed -E -e "$change" "$libraries/$file" >"$folder/$libraries/$file"
    build_and_run "$folder" "$contract" "$file" >"$folder/log" 2>&1
    status=$?
    rm -f "$folder/contract"
    if [ "$(diff "$libraries/$file" "$folder/$libraries/$file" | grep -c '^<')" -ne $((${#change} > 0)) ]; then
        verdict="MISTAKE: changes no line, or several"
    elif [ -z "$change" ]; then
        verdict=caught
        [ $status -eq 0 ] || verdict="MISTAKE: fails without any: $(tail -n 20 "$folder/log")"
    elif [ $status -eq 0 ]; then
        verdict=MISSED
    elif grep -qF "$words" "$folder/log"; then
        verdict=caught
    else
        verdict="MISTAKE: fails without the words $words: $(tail -n 5 "$folder/log")"
    fi
    echo "$verdict: $file: $change"
}
export -f build_and_run try

{
    sed -n '/^#/d; s/ | /|/gp' tests/contracts/planted.txt
    for contract in cublas cudnn nccl nvml; do
        if [ -e "$libraries/$contract.c" ]; then
            echo "$contract|$contract.c||"
        else
            echo "$contract|${contract}_functions.h||" # nothing uses it yet
        fi
        sed -n -E "s/^ +([A-Z][A-Z0-9_]+) = ([0-9]+).*/$contract|${contract}_functions.h|s:^( +\1 = ):\\\\11:|static assertion failed: \"\1\"/p" \
            "$libraries/${contract}_functions.h"
    done
} | awk '{print NR "|" $0}' >"$work/lines"
# shellcheck disable=SC2016
tr '\n' '\0' <"$work/lines" | xargs -0 -P "$(nproc)" -I LINE bash -c 'try "$1"' try LINE >"$work/verdicts"
grep -v '^caught' "$work/verdicts"
bad=$(grep -c '^MIS' "$work/verdicts")
echo "contracts: $(grep -c '^caught: .*: .' "$work/verdicts") planted mistakes caught, $bad not"
[ "$bad" -eq 0 ] && [ "$(grep -c '^caught' "$work/verdicts")" -eq "$(wc -l <"$work/lines")" ]
