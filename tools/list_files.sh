#!/usr/bin/env bash
# Prints the names of the project's files: of a clone those that git has or would add; of an unpacked tarball all but what
# `make` and the demos write.
set -eu
cd "$(dirname "$0")/.."
if [ -e .git ]; then
    git ls-files --cached --others --exclude-standard | while read -r file; do [ ! -e "$file" ] || echo "$file"; done
else
    find . \( -path ./build -o -path ./demo/work -o -path './train_*[!c]' \) -prune -o -type f -printf '%P\n'
fi
