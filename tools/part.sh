#!/usr/bin/env bash
# Runs a part of the tests, prints how long it took, and adds a line to build/times, which `tools/part.sh --sum` prints.
#   tools/part.sh NAME COMMAND...
set -u
times=build/times
mkdir -p build
if [ "$1" = --sum ]; then
    awk '{printf "%-24s %5d s\n", $1, $2; all += $2} END {printf "%-24s %5d s\n", "all", all}' "$times" && rm "$times"
    exit
fi
name=$1
shift
began=$SECONDS
"$@"
status=$?
echo "$name $((SECONDS - began))" >>"$times"
echo "== $name: $((SECONDS - began)) s"
exit $status
