#!/usr/bin/env bash
# Runs the test programs given, each quietly unless it fails, and adds up what cmocka counted.
#   BUILD=build/release tools/run_tests.sh build/release/tests/test_*
set -u
passed=0 failed=0 skipped=0
rm -f "$BUILD/operations.log" # tests/cuda/rig.h writes it, test_operations.c reads it
export BUILD GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # threads that spin would starve each other where tests share cores
for program in "$@"; do
    log=$program.log
    start=$(date +%s.%N)
    "$program" >"$log" 2>&1
    status=$?
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" "BEGIN {print b - a}")
    count() { sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$log" | awk '{n += $1} END {print n + 0}'; }
    ok=$(count PASSED) bad=$(count FAILED) skip=$(count SKIPPED)
    [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    printf '%-28s %4d passed %3d failed %3d skipped  %6.1f s\n' "${program#*tests/}" "$ok" "$bad" "$skip" "$seconds"
    if [ "$bad" -ne 0 ]; then
        echo "--- $program (exit $status), the end of $log:"
        tail -n 60 "$log"
        echo "---"
    fi
    grep -h '^SKIPPED:' "$log"
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
