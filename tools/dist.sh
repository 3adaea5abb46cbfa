#!/usr/bin/env bash
# Packs the sources of the clone's commit into DIRECTORY/train.c-VERSION.tar.gz and writes DIRECTORY/SHA256SUMS:
#   tools/dist.sh DIRECTORY
# The bytes depend on the commit alone: the order, owners and modes of the files are fixed, and their time is that of the
# commit, or SOURCE_DATE_EPOCH, in seconds since 1970.
set -euo pipefail
directory=$(realpath -m "$1")
cd "$(dirname "$0")/.."
[ -e .git ] || { echo "make dist: this folder is no clone: a source tarball is made from a commit" >&2; exit 1; }
version=$(git show HEAD:base/version.c | sed -n 's/.*version_number\[\] = "\(.*\)";/\1/p')
[ -n "$version" ] || { echo "make dist: base/version.c has no version_number[] = \"...\"" >&2; exit 1; }
name=train.c-$version
git diff --quiet HEAD || echo "make dist: packs the last commit, without the changes that are not committed" >&2

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
git archive --prefix="$name/" HEAD | tar -x -C "$new"
mkdir -p "$directory"
tar -c -C "$new" --format=ustar --sort=name --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
    --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name" | gzip -9n >"$new/tarball"
install -m 644 "$new/tarball" "$directory/$name.tar.gz"
cd "$directory"
sha256sum "$name.tar.gz" | tee SHA256SUMS
