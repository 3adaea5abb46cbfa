#!/usr/bin/env bash
# Runs each fuzzer for FUZZ_SECONDS (60). Stops at the first finding and keeps its input beside the fuzzer.
set -eu
for fuzzer in "$@"; do
    corpus=$fuzzer.corpus
    mkdir -p "$corpus"
    echo "$(basename "$fuzzer"): ${FUZZ_SECONDS:-60} s"
    "$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$fuzzer." "$corpus" >"$fuzzer.log" 2>&1 || { tail -n 50 "$fuzzer.log"; exit 1; }
    grep -h 'stat::number_of_executed_units' "$fuzzer.log"
done
echo "no finding"
