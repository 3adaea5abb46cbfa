#!/usr/bin/env bash
# Runs test programs on the GPU under memcheck and racecheck of compute-sanitizer, four at a time, and prints the result of
# each. Exits 1 if one failed or took longer than SECONDS_EACH. START, if set, is put before each program.
#   tools/gpu_sanitize.sh build/release/gpu_native/tests/cuda/test_*
set -u
export START=${START:-} SECONDS_EACH=${SECONDS_EACH:-300}
sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null)
if [ -z "$sanitizer" ]; then
    echo "SKIPPED: memcheck and racecheck: compute-sanitizer is not installed (it comes with the CUDA toolkit)"
    exit 0
fi
export sanitizer logs
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

check() {
    local tool=$1 program=$2 log began=$SECONDS status result
    log=$logs/$tool.$(basename "$program")
    # shellcheck disable=SC2086 # START is several words
    timeout "$SECONDS_EACH" "$sanitizer" --tool "$tool" --target-processes all --report-api-errors no --error-exitcode 1 $START "$program" >"$log" 2>&1
    status=$?
    case $status in
    0) result=passed ;;
    124) result="not done" ;;
    *) result=FAILED ;;
    esac
    printf '%-10s %-24s %s, %d s\n' "$tool" "$(basename "$program")" "$result" $((SECONDS - began))
    [ $status -eq 0 ] || grep -a '=========' "$log" | head -n 40
    return $status
}
export -f check
for program in "$@"; do printf 'memcheck %s\nracecheck %s\n' "$program" "$program"; done |
    xargs -P 4 -L 1 bash -c 'check "$@" || exit 1' check
