#!/usr/bin/env bash
# Writes what a release prints of its libraries into two files of a directory: `libraries`, a line for each with its version
# and licence, and `licenses`, the texts. Reads the libraries that library.sh has built below another directory.
#   tools/release/licenses.sh BUILT CUDA OUTPUT
# CUDA is the version of the toolkit, whose runtime is in the programs, too.
set -eu
built=$1
cuda=$2
output=$3
here=$(dirname "$(realpath "$0")")
common=/usr/share/common-licenses

mkdir -p "$output"
# describe NAME VERSION LICENCE: writes a line of the list, and the title of the text that follows.
describe() {
    printf '  %-24s %-20s %s\n' "$@" >>"$output/libraries"
    title "$1 $2"
}
title() { printf '\n======== %s ========\n\n' "$1"; }
: >"$output/libraries"
{
    title train.c
    cat "$here/../../LICENSE"
    while read -r name package suite _ licence; do
        if [ "$suite" = - ]; then
            version=$(dpkg-query -W -f '${Version}' "$package")
            text=/usr/share/doc/$package/copyright
        else
            version=$(cat "$built/licenses/$name.version")
            text=$built/licenses/$name
        fi
        describe "${name//_/ }" "$version" "${licence//_/ }"
        cat "$text"
    done < <(grep -v '^#' "$here/libraries.txt")
    if [ -n "$cuda" ]; then
        describe "CUDA runtime" "$cuda" "NVIDIA's licence of the CUDA Toolkit"
        echo "The licence is at https://docs.nvidia.com/cuda/eula/. Its attachment A names libcudart_static.a, which is in" \
            "this program, among the parts that may be distributed."
    fi
    for text in Apache-2.0 LGPL-2 LGPL-2.1 LGPL-3 GPL-3; do
        title "$text"
        cat "$common/$text"
    done
} >"$output/licenses"
