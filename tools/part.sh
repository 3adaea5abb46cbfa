#!/usr/bin/env bash
# Runs a part of a tier of tests, prints how long it took, and adds a line to build/times.TIER, which --sum prints and removes.
#   tools/part.sh TIER NAME COMMAND...
#   tools/part.sh TIER --begin | --sum
set -u
times=build/times.$1 name=$2
shift 2
mkdir -p build
case $name in
--begin) rm -f "$times" ;;
--sum)
    awk '{printf "%-24s %5d s\n", $1, $2; all += $2} END {printf "%-24s %5d s\n", "all", all}' "$times"
    rm -f "$times"
    ;;
*)
    echo "== $name"
    began=$SECONDS
    "$@"
    status=$?
    echo "$name $((SECONDS - began))" >>"$times"
    echo "== $name: $((SECONDS - began)) s"
    exit $status
    ;;
esac
