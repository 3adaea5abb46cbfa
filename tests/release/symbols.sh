#!/usr/bin/env bash
# Checks that what a release is linked from needs no function of glibc that is newer than 2.17, but for those of
# tools/release/glibc_2_17.c. Of a function with several versions the release's linker takes an old one. Prints the names of
# the other libraries' functions.
#   tests/release/symbols.sh OBJECT_OR_ARCHIVE...
set -euo pipefail
export LC_ALL=C # the order of join
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'grep -v "no symbols$" "$work/errors" >&2; echo "symbols: cannot read the objects: $*" >&2' ERR
libc=$(ldd "$(command -v ls)" | sed -n 's/.* => \(.*\/\)libc\.so\.6 .*/\1/p')

# Each function of this glibc with its oldest version.
for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do objdump -T "$libc$library"; done |
    sed -n 's/.*[( ]GLIBC_\([0-9.]*\))\{0,1\} *\([^ ]*\)$/\2 \1/p' | sort -k 1,1 -k 2,2V | sort -u -s -k 1,1 >"$work/glibc"
{
    sed -n -e 's/^[a-z].*[ *]\([a-z_0-9]*\)(.*{$/\1/p' -e 's/^char \([a-z_]*\) =.*/\1/p' tools/release/glibc_2_17.c
    printf '%s\n' stat lstat fstat fstatat # zig's archive for old versions has them
} | sort >"$work/ours"
nm "$@" 2>"$work/errors" | sed -n 's/^[0-9a-f]* *[A-TV-Z] //p' | sort -u >"$work/defined"
nm -u "$@" 2>/dev/null | sed -n 's/^ *U //p' | sort -u | join -v 1 - "$work/defined" >"$work/needed"
join "$work/glibc" "$work/needed" >"$work/found"
join -v 1 "$work/found" "$work/ours" | while read -r name version; do
    [ "$(printf '%s\n2.17\n' "$version" | sort -V | tail -n 1)" = 2.17 ] || echo "$name $version"
done >"$work/newer"
[ "$(wc -l <"$work/found")" -ge 20 ] || { echo "symbols: only $(wc -l <"$work/found") functions of glibc were found" >&2; exit 1; }
while read -r name version; do echo "symbols: $name is of glibc $version, and a release runs with 2.17" >&2; done <"$work/newer"
[ ! -s "$work/newer" ] || exit 1
join -v 2 "$work/glibc" "$work/needed"
