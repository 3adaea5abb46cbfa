#!/usr/bin/env bash
# Builds one part of each kind of a release again, in another folder: they must have the same bytes as those of this folder.
# (All of a release takes a quarter of an hour.)
#   CUDA_HOME=/usr/local/cuda tests/release/reproduce.sh LIBRARIES BUILD
set -eu
unset MAKEFLAGS MFLAGS
cd "$(dirname "$0")/../.."
libraries=$(realpath "$1") build=$(realpath "$2")
copy=$PWD/build/reproduce/other
kernel=kernels/cuda/stem/stem_half.o object=train_psd.o

# Fails unless two files have the same bytes without the symbols for debuggers and linkers, which a release does not have.
same() {
    strip --strip-unneeded -o "$copy/a" "$1"
    strip --strip-unneeded -o "$copy/b" "$2"
    cmp "$copy/a" "$copy/b" || { echo "release-test: $1 depends on the folder or the time of the build" >&2; exit 1; }
}

rm -rf "$copy"
mkdir -p "$copy"
tools/list_files.sh | xargs -d '\n' cp --parents -t "$copy"
(
    cd "$copy"
    tools/release/library.sh build/libraries libsamplerate
    make -s GPU=all CUDA_HOME="$CUDA_HOME" BUILD=build/again "build/again/gpu_all/$kernel" "build/again/$object"
) >/dev/null
same "$libraries/lib/libsamplerate.a" "$copy/build/libraries/lib/libsamplerate.a"
same "$build/gpu_all/$kernel" "$copy/build/again/gpu_all/$kernel"
same "$build/$object" "$copy/build/again/$object"
rm -rf "$copy"
echo "a library, a kernel and an object have the same bytes when they are built in another folder"
