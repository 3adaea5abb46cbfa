#!/usr/bin/env bash
# Runs test programs, prints one line for each and the log of those that fail, then the sums of what cmocka counted.
#   BUILD=build/release tools/run_tests.sh build/release/tests/base/test_*
# JOBS=N runs N programs at a time (default 1), for tests that use one core each.
set -u
rm -f "$BUILD/operations.log" # tests/cuda/rig.c writes it, test_operations.c reads it
export BUILD GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # threads that spin longer would starve tests on the same cores
# Half of the time of tests that write files is the disk's: they use memory where there is enough, and programs may run there.
needed=$((4000 + 500 * ${JOBS:-1})) # MB
has_room() {
    local limit
    [ -w /dev/shm ] && [ "$(df -mP /dev/shm | awk 'END {print $4}')" -ge "$needed" ] &&
        [ "$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)" -ge $((2 * needed)) ] || return
    limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
    [ "$limit" = max ] || [ $(((limit - $(cat /sys/fs/cgroup/memory.current)) >> 20)) -ge $((2 * needed)) ]
}
if [ -z "${TMPDIR-}" ] && has_room && folder=$(mktemp -d /dev/shm/trainc_tests_XXXXXX); then
    trap 'rm -rf "$folder"' EXIT
    cp /bin/true "$folder" && chmod 755 "$folder" && "$folder/true" 2>/dev/null && export TMPDIR="$folder" # 755: for other users
fi

# Runs one program and prints its line, and the end of its log if it failed.
run_one() {
    local program=$1 log=$1.log start status seconds ok bad skip
    start=$(date +%s.%N)
    "$program" >"$log" 2>&1
    status=$?
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" "BEGIN {print b - a}")
    count() { sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$log" | awk '{n += $1} END {print n + 0}'; }
    ok=$(count PASSED) bad=$(count FAILED) skip=$(count SKIPPED)
    [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    if [ -n "${TEST_FILTER-}" ] && [ $((ok + bad + skip)) -eq 0 ]; then
        echo "TEST_FILTER=$TEST_FILTER names no test of this program" >>"$log"
        bad=1
    fi
    {
        printf '%-28s %4d passed %3d failed %3d skipped  %6.1f s\n' "${program#*tests/}" "$ok" "$bad" "$skip" "$seconds"
        if [ "$bad" -ne 0 ]; then
            echo "--- $program (exit $status), the end of $log:"
            tail -n 60 "$log"
            echo "---"
        fi
        grep -h '^SKIPPED:' "$log"
    } >"$log.summary"
    cat "$log.summary"
}
export -f run_one

# test_operations runs last: it reads what the other tests have written.
others=() last=()
for program in "$@"; do
    if [[ $program == */test_operations ]]; then last+=("$program"); else others+=("$program"); fi
done
# shellcheck disable=SC2016
[ ${#others[@]} -eq 0 ] || printf '%s\0' "${others[@]}" | xargs -0 -n 1 -P "${JOBS:-1}" bash -c 'run_one "$1"' run_one
for program in "${last[@]}"; do run_one "$program"; done
[ $# -gt 0 ] || { echo "run_tests: expected test programs as arguments, found none" >&2; exit 2; }
for program in "$@"; do head -n 1 "$program.log.summary"; done |
    awk '{passed += $2; failed += $4; skipped += $6}
         END {printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0}'
