#!/usr/bin/env bash
# Tests the tests of the kernels: plants the bugs of mutations.txt in a copy of the sources, all of them together, each
# behind a switch of its own, and runs for each the test that must fail once it is switched on.
#   tests/cuda/mutations.sh [--some] [PATTERN]     those whose line matches (grep -E)
# --some: of the marked lines only those for every sixth file, from one on that the hash of the commit chooses: most of the
# time is the compiler's.
# A line of the list that does not change exactly one line of its file, whose test fails without it, or
# that does not name exactly one test of its program, is a mistake.
set -u
unset MAKEFLAGS MFLAGS
cd "$(dirname "$0")/../.." || exit 1
some=
chosen=0
if [ "${1-}" = --some ]; then
    some='^[*]'
    revision=$(tools/revision.sh | sed s/unknown/0/)
    chosen=$((16#${revision:0:6} % 6))
    shift
fi
work=build/mutations
export work
mkdir -p "$work/source/build" "$work/logs"
# CUDA's headers, if they were fetched.
for toolkit in build/cuda-*/usr; do [ ! -d "$toolkit" ] || ln -sfn "$PWD/${toolkit%/usr}" "$work/source/build/"; done
rm -f "$work"/logs/*

# The copy, with the bugs that are to be tried; files that are what they were keep their date, and are not compiled again.
rm -rf "$work/new"
mkdir "$work/new"
read -ra rooms < <(sed -n 's/^ROOMS = //p' mk/build.mk)
cp -rp Makefile REVISION mk tools train_*.c configs tests "${rooms[@]}" "$work/new"
cat >"$work/new/planted_bug.h" <<'C'
/* Which of the planted bugs is switched on; 0: none. */
#include <stdlib.h>
__attribute__((weak)) int planted_bug;
__attribute__((constructor)) static void choose_planted_bug(void) {
    const char *number = getenv("PLANTED_BUG");
    planted_bug = number ? atoi(number) : 0;
}
C
number=0 mistakes=0
declare -A turn=() # of each file
while read -r line; do
    number=$((number + 1))
    IFS='|' read -r kind test file change <<<"$line"
    read -r kind test file <<<"$kind $test $file"
    sed -E -e "${change//BUG/(planted_bug == $number)}" "$work/new/$file" >"$work/planted"
    changed=$(diff "$work/new/$file" "$work/planted" | grep -c '^<')
    if [ "$changed" -ne 1 ] || [[ "$change" != *BUG* ]]; then
        echo "MISTAKE: changes $changed lines: $file:$change" >&2
        mistakes=$((mistakes + 1))
    fi
    if ! [[ "$kind" =~ $some && "$line" =~ ${1-} ]]; then continue; fi
    turn[$file]=${turn[$file]:-${#turn[@]}}
    [ -n "$some" ] && [ $((turn[$file] % 6)) -ne $chosen ] && continue
    cp "$work/planted" "$work/new/$file"
    echo "$number|${kind#\*}|$test|$file|$change"
done < <(grep -E '^[*]?(plain|race) ' tests/cuda/mutations.txt) >"$work/lines"
[ "$mistakes" -eq 0 ] || exit 1
(cd "$work/source" && find . -type f) | while read -r file; do [ -f "$work/new/$file" ] || rm "$work/source/$file"; done
(cd "$work/new" && find . -type f) | while read -r file; do
    cmp -s "$work/new/$file" "$work/source/$file" && continue
    mkdir -p "$work/source/${file%/*}"
    cp -p "$work/new/$file" "$work/source/$file"
done

# shellcheck source=tests/cuda/planted.sh
. tests/cuda/planted.sh

[ -s "$work/lines" ] || { echo "$0: no line of the list matches" >&2; exit 2; }

# take_objects KIND: objects of the usual build serve for what is as usual, but for those of sources that lie in the build; the
# checker of races has its own of the kernels.
take_objects() {
    local new=$work/$1.new
    { [ -d build/release/emulated ] && [ ! -d "$work/$1" ]; } || return
    rm -rf "$new" && mkdir "$new" || exit
    (cd build/release && find . \( -name 'gpu_*' -o -name 'ptx*' -o -name configs \) -prune -o \( -name '*.[od]' -o -name sources -o -name tested_toolkit \) -print0 |
        xargs -0 cp --parents -p -t "$OLDPWD/$new") || exit
    find "$new" -name '*.d' -exec sed -i "s|^build/release/|../$1/|" {} + || exit
    [ "$1" = plain ] || find kernels tests -name '*.cu' -o -path '*/emulate/*.cpp' | sed 's/\.[a-z]*$//' |
        while read -r source; do rm -f "$new/$source.o" "$new/emulated/$source.o"; done
    mv "$new" "$work/$1"
}

for kind in plain race; do
    grep -q "^[0-9]*|$kind|" "$work/lines" || continue
    take_objects "$kind"
    options=(OPTIMIZE="-O1 -g" EXTRA="-w -include planted_bug.h" GPU=none)
    [ "$kind" = race ] && options+=(KERNEL_EXTRA="-fsanitize=thread" EMULATOR_EXTRA=-DEMULATE_CHECK)
    mapfile -t programs < <(awk -F'[|:]' -v kind="$kind" '$2 == kind {print $3}' "$work/lines" | sort -u |
        while read -r test; do echo "../$kind/$(path_of "$test")"; done)
    make -C "$work/source" -j"$(nproc)" --no-print-directory "${programs[@]}" BUILD="../$kind" "${options[@]}" \
        >"$work/logs/build_$kind" 2>&1 || {
        grep -A 5 -m 3 "error:" "$work/logs/build_$kind" || tail -n 20 "$work/logs/build_$kind"
        exit 1
    }
done

# One bug, or with number 0 none: number|kind|program[:function]|file|change.
try() {
    IFS='|' read -r number kind test file change <<<"$1"
    log=$work/logs/$number
    [ "$number" -eq 0 ] && log=$work/logs/none_${kind}_$test
    # shellcheck disable=SC2086,SC2163 # several assignments
    export PLANTED_BUG=$number $as_emulated
    [[ $test != test_wrappers* ]] || export EMULATE_INEXACT=0
    run_test "$work/$kind" "$test" "$log" 600
    if [ "$number" -eq 0 ]; then
        has_passed_alone "$test" "$log" && return
        tail -n 30 "$log" >&2
        verdict=MISTAKE change=" fails without any bug, or is not the only test that runs"
    fi
    printf '%-7s %s (%s): %s:%s\n' "$verdict" "$test" "$kind" "$file" "$change"
}
as_emulated=$(sed -n 's/^AS_EMULATED = //p' mk/checks.mk)
export as_emulated
export -f try
export GOMP_SPINCOUNT=1000
{
    awk -F'|' '!seen[$2, $3]++ {print "0|" $2 "|" $3 "||"}' "$work/lines"
    cat "$work/lines"
} >"$work/runs"
try_all
