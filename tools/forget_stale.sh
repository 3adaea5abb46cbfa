#!/usr/bin/env bash
# Removes the objects in a folder of a build that were compiled from other sources than those that are here now:
#   tools/forget_stale.sh build/release SOURCES_OR_FOLDERS...
# make compares only times: it would keep the object when an older source replaces another (cp -p, rsync -a, tar), or when a
# source goes and another of its name comes. BUILD/sources has size and time of every source at the last make.
set -eu
export LC_ALL=C
build=$1
shift
mkdir -p "$build"
exec 9>>"$build/sources.lock" # of two makes at once, the second finds nothing to do
flock 9
[ -e "$build/sources" ] || : >"$build/sources"
now=$build/sources.$$
find "$@" -type f -name '*.[chS]*' -printf '%p %s %T@\n' | sort >"$now"
if ! cmp -s "$now" "$build/sources"; then
    comm -3 "$now" "$build/sources" | sed 's/^\t//; s/ [0-9]* [0-9.-]*$//' | sort -u >"$now.changed"
    # Beside an object lies the compiler's list of what it was made from, which begins with its name.
    find "$build" -name '*.d' -exec grep -lwFf "$now.changed" {} + >"$now.stale" || true
    # With the object goes what nvcc has kept of it.
    xargs -r -d '\n' sed -sn '1s/ *:.*//p' <"$now.stale" | sed 'p; s/\.o$/.kept/' | xargs -r -d '\n' rm -rf
    xargs -r -d '\n' rm -f <"$now.stale"
    rm "$now.changed" "$now.stale"
fi
mv "$now" "$build/sources"
