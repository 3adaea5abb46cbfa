# shellcheck shell=bash
# What mutations.sh and ptx_mutations.sh share: running a test with a planted bug, and counting. They set and export
# `work`, a folder, and define and export `try`, which tries one line of $work/runs and prints its verdict.

# Prints the path of a test program, without its ending, from its name.
path_of() { find tests -path "*/cuda/$1.c" -o -path "*/cuda/$1.cu" | sed 's/\.cu\?$//'; }

# run_test FOLDER PROGRAM[:FUNCTION] LOG SECONDS: sets `verdict`: caught, MISSED (the test passes) or HANGS.
run_test() {
    local program=${2%%:*} function status
    function=${2#"$program"}
    TEST_FILTER=${function#:} timeout "$4" "$1/$(path_of "$program")" >"$3" 2>&1
    status=$?
    verdict=caught
    [ "$status" -ne 0 ] || verdict=MISSED
    [ "$status" -ne 124 ] || verdict=HANGS
}

# has_passed_alone PROGRAM[:FUNCTION] LOG: true if, without any bug, the test has passed, and no other ran.
has_passed_alone() {
    [ "$verdict" = MISSED ] && grep -q '^\[  PASSED' "$2" || return
    [[ $1 != *:* ]] || [ "$(grep '^\[       OK' "$2" | sort -u | wc -l)" -eq 1 ]
}
export -f path_of run_test has_passed_alone

# Tries the lines of $work/runs, as many at a time as there are cores. $work/verdicts has what they print.
try_all() {
    local caught missed
    : "${work:?}"
    # shellcheck disable=SC2016
    tr '\n' '\0' <"$work/runs" | xargs -0 -P "$(nproc)" -I LINE bash -c 'try "$1"' try LINE | tee "$work/verdicts"
    caught=$(grep -c '^caught' "$work/verdicts")
    missed=$(grep -cv '^caught' "$work/verdicts")
    echo "$caught bugs caught, $missed not"
    [ "$missed" -eq 0 ]
}
