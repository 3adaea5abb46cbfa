#!/usr/bin/env bash
# Packs released programs with what belongs to them into build/dist/train.c-VERSION-linux-x86_64.tar.gz, writes its digest beside it, and prints how to copy it to a machine:
#   tools/release/archive.sh PROGRAMS TOOLKIT      the version of CUDA; 11 and 13 are in the name of the archive
# The bytes depend on the programs and the commit: the order, owners, modes and times of the files are fixed, as in tools/dist.sh.
set -euo pipefail
programs=$(realpath "$1")
cd "$(dirname "$0")/../.."
version=$(sed -n 's/.*version_number\[\] = "\(.*\)";/\1/p' base/version.c)
name=train.c-$version-linux-x86_64
case $2 in
12.*) driver=525.60 oldest=V100 ;;
11.*) driver=450.80 oldest=V100 name+=-cuda11 ;;
13.*) driver=580 oldest=T4 name+=-cuda13 ;;
esac
out=$PWD/build/dist
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

mkdir -p "$new/$name" "$out"
(cd "$programs" && cut -d ' ' -f 3 SHA256SUMS | xargs cp SHA256SUMS -t "$new/$name")
tools/list_files.sh | grep -E '^(configs/[^/]*|docs/.*|benchmarks/.*|README\.md|LICENSE)$' | xargs -d '\n' cp --parents -t "$new/$name"
sed "s/DRIVER/$driver/; s/OLDEST/$oldest/" tools/release/README >"$new/$name/README"
"$programs/train_gpt" --licenses >"$new/$name/LICENSES.txt"
date=${SOURCE_DATE_EPOCH:-$([ ! -e .git ] || git log -1 --format=%ct)}
tar -c -C "$new" --format=ustar --sort=name --mtime="@${date:-0}" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name" |
    gzip -n >"$out/$name.tar.gz"
cd "$out"
sha256sum "$name.tar.gz" >"$name.tar.gz.sha256"
du -h "$name.tar.gz"
cat <<LINES
To copy it to a machine named rented, check it and unpack it there:
  scp build/dist/$name.tar.gz build/dist/$name.tar.gz.sha256 rented:
  ssh rented "sha256sum -c $name.tar.gz.sha256 && tar -xzf $name.tar.gz"
  ssh rented "cd $name && ./train_gpt --version"
LINES
