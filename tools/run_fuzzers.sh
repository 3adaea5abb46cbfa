#!/usr/bin/env bash
# Runs each fuzzer for FUZZ_SECONDS (60), JOBS (1) at a time. Stops at the first finding and keeps its input beside the
# fuzzer.
set -eu

run_one() {
    local fuzzer=$1 corpus=$1.corpus
    mkdir -p "$corpus"
    "$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$fuzzer." "$corpus" >"$fuzzer.log" 2>&1 || { tail -n 50 "$fuzzer.log"; exit 255; } # xargs stops
    echo "$(basename "$fuzzer"): $(sed -n 's/stat::number_of_executed_units: *//p' "$fuzzer.log") inputs"
}
export -f run_one

# shellcheck disable=SC2016
printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-1}" bash -c 'run_one "$1"' run_one
echo "no finding"
