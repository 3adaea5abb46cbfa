#!/usr/bin/env bash
# Prints the revision of these sources, 12 digits: the one in REVISION, where git has written it into a tarball, or else that
# of this clone. Prints "unknown" for sources that are neither: a repository around them says nothing about them.
set -eu
cd "$(dirname "$0")/.."
read -r revision <REVISION
[[ $revision != *Format* ]] || revision=$([ ! -e .git ] || git rev-parse HEAD 2>/dev/null || true)
revision=${revision:0:12}
echo "${revision:-unknown}"
