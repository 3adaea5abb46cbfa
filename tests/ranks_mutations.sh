#!/usr/bin/env bash
# Tests the tests of several ranks: plants the bugs of tests/mpi/mutations.txt, or of tests/nccl/mutations.txt, in a copy of the
# sources, all of them together, each behind a switch of its own, and runs for each the test that must fail once it is switched on.
#   tests/ranks_mutations.sh mpi|nccl [PATTERN]     those whose line matches (grep -E)
set -u
unset MAKEFLAGS MFLAGS
cd "$(dirname "$0")/.." || exit 1
kind=${1-}
[ -f "tests/$kind/mutations.txt" ] || { echo "usage: $0 mpi|nccl [PATTERN]" >&2; exit 2; }
work=build/${kind}_mutations
rm -rf "$work/source"
mkdir -p "$work/source"
read -ra rooms < <(sed -n 's/^ROOMS = //p' mk/build.mk)
cp -rp Makefile REVISION README.md mk tools train_*.c configs tests "${rooms[@]}" "$work/source"
cat >"$work/source/planted_bug.h" <<'C'
/* Returns which of the planted bugs is switched on; 0: none. */
#include <stdlib.h>
static inline int planted_bug(void) {
    const char *number = getenv("PLANTED_BUG");
    return number ? atoi(number) : 0;
}
C
number=0 mistakes=0
while IFS='|' read -r test file change; do
    number=$((number + 1))
    sed -E "${change//BUG/(planted_bug() == $number)}" "$work/source/$file" >"$work/planted"
    changed=$(diff "$work/source/$file" "$work/planted" | grep -c '^<')
    if [ "$changed" -ne 1 ] || [[ "$change" != *BUG* ]]; then
        echo "MISTAKE: changes $changed lines: $file:$change" >&2
        mistakes=$((mistakes + 1))
    fi
    cp "$work/planted" "$work/source/$file"
    grep -q planted_bug.h "$work/source/$file" || sed -i '1i #include "planted_bug.h"' "$work/source/$file"
    echo "$number|$test|$file|$change"
done < <(grep -v '^#' "tests/$kind/mutations.txt" | grep .) >"$work/lines"
[ "$mistakes" -eq 0 ] || exit 1
cd "$work/source" || exit
with=()
[ "$kind" = nccl ] || with=(MPI=1)
make -s -j"$(nproc)" GPU=none "${with[@]}" CC="${CC:-cc}" CXX="${CXX:-c++}" "$kind-tests" >../build.log 2>&1 || { tail -20 ../build.log; exit 1; }
caught=0 escaped=0
while IFS='|' read -r number test file change; do
    log=../$number.log
    if PLANTED_BUG=$number TEST_FILTER=${test#*:} BUILD=build/release timeout 300 "build/release/tests/${test%:*}" </dev/null >"$log" 2>&1; then
        echo "ESCAPED: $test: $file: $change"
        escaped=$((escaped + 1))
    elif ! grep -q "FAILED.*${test#*:}" "$log"; then
        echo "NOT TRIED: $test: $file (see $work/$number.log)"
        escaped=$((escaped + 1))
    else
        caught=$((caught + 1))
    fi
done < <(grep -E "${2-}" ../lines)
echo "$caught bugs caught, $escaped not"
[ "$escaped" -eq 0 ] && [ "$caught" -gt 0 ]
