#!/usr/bin/env bash
# Writes what a release prints of its libraries into two files of a directory: `libraries`, a line for each with its version
# and licence, and `licenses`, the texts. Reads the libraries that library.sh has built below another directory.
#   tools/release/licenses.sh BUILT OUTPUT
set -eu
built=$1
output=$2
here=$(dirname "$(realpath "$0")")
common=/usr/share/common-licenses

mkdir -p "$output"
title() { printf '\n======== %s ========\n\n' "$1"; }
{
    title train.c
    cat "$here/../../LICENSE"
} >"$output/licenses"
: >"$output/libraries"
while read -r name package suite _ licence; do
    if [ "$suite" = - ]; then
        version=$(dpkg-query -W -f '${Version}' "$package")
        text=/usr/share/doc/$package/copyright
    else
        version=$(cat "$built/licenses/$name.version")
        text=$built/licenses/$name
    fi
    printf '  %-24s %-20s %s\n' "${name//_/ }" "$version" "${licence//_/ }" >>"$output/libraries"
    title "${name//_/ } $version"
    cat "$text"
done < <(grep -v '^#' "$here/libraries.txt") >>"$output/licenses"
for text in Apache-2.0 LGPL-2 LGPL-2.1 LGPL-3 GPL-3; do
    title "$text"
    cat "$common/$text"
done >>"$output/licenses"
