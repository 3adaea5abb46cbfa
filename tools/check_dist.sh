#!/usr/bin/env bash
# Checks the source tarball of the last commit: two clones give the same bytes, and the sources build without git, in a folder
# of another repository, under the revision of the commit.
set -eu
unset MAKEFLAGS MFLAGS SOURCE_DATE_EPOCH
cd "$(dirname "$0")/.."
[ -e .git ] || { echo "SKIPPED: the check of the source tarball, which is made in a clone"; exit 0; }
fail() { echo "check_dist: $*" >&2; exit 1; }
# Prints the revision that an object of this folder's sources has.
built_revision() {
    make --no-print-directory GPU=none BUILD="$1" "$1/base/version.o" >/dev/null
    grep -aoE '\b([0-9a-f]{12}|unknown)\b' "$1/base/version.o" | head -n 1
}

work=$PWD/build/check_dist
rm -rf "$work"
mkdir -p "$work/bin" "$work/other"
git clone -q . "$work/clone"
git clone -q . "$work/folder/another clone"
(cd "$work/clone" && umask 022 && make dist >/dev/null)
(cd "$work/folder/another clone" && umask 077 && TZ=Asia/Tokyo make dist >/dev/null)
(cd "$work/clone/build/dist" && sha256sum --quiet -c SHA256SUMS)
cmp "$work/clone/build/dist/SHA256SUMS" "$work/folder/another clone/build/dist/SHA256SUMS" ||
    fail "two clones of one commit give different tarballs"
(cd "$work/clone" && SOURCE_DATE_EPOCH=86400 tools/dist.sh "$work/dated" >/dev/null)
[ "$(tar -tvzf "$work"/dated/*.tar.gz --utc | grep -vc ' 1970-01-02 00:00 ')" -eq 0 ] || fail "SOURCE_DATE_EPOCH is not the time of all files"

# Another repository around the sources, and a git that is not there.
tar -xzf "$work"/clone/build/dist/*.tar.gz -C "$work/other"
git -C "$work/other" init -q
git -C "$work/other" -c user.name=a -c user.email=a@b commit -q --allow-empty -m "Another project"
printf '#!/bin/sh\nexit 127\n' >"$work/bin/git"
chmod +x "$work/bin/git"
expected=$(git rev-parse HEAD | cut -c 1-12)
cd "$work"/other/*/
for path in "$PATH" "$work/bin:$PATH"; do
    found=$(PATH=$path built_revision "build/${#path}")
    [ "$found" = "$expected" ] || fail "the build from the tarball has the revision $found, expected $expected"
done
export PATH=$work/bin:$PATH
make -n GPU=none all >/dev/null || fail "make does not know how to build the unpacked sources"
diff <(tools/list_files.sh | sort) <(cd "$work/clone" && PATH=${PATH#*:} git ls-files | sort) || fail "files of the tarball (<) differ from the commit's (>)"
make dist 2>&1 | grep -q "this folder is no clone" || fail "make dist in unpacked sources does not say that it needs a clone"
[ "$(cd "$work/clone" && PATH=${PATH#*:} built_revision build/release)" = "$expected" ] || fail "the build from a clone has another revision"
rm REVISION
echo "\$Format:%H\$" >REVISION
[ "$(PATH=${PATH#*:} built_revision build/without)" = unknown ] || fail "sources without a revision take that of the repository around them"
rm -rf "$work"
echo "the source tarball is reproducible and builds without git"
