#!/usr/bin/env bash
# Packs the tests, benchmarks and programs for GPUs, and all their libraries, into one archive for a machine that has only a
# driver, build/NAME.tar.xz:
#   tools/gpu_kit/pack.sh NAME DICTIONARY
# ON_GPU is the folder of the build, PROGRAMS the programs in it, TESTS the test programs.
set -eu
: "${PROGRAMS:?names no program}" "${TESTS:?names no test}"
cd "$(dirname "$0")/../.."
out=build/$1
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/libc" "$out/reference" "$out/text"
# shellcheck disable=SC2086 # names without spaces
cp $TESTS "$out/bin/"
for program in tests/bench_step $PROGRAMS; do cp "$ON_GPU/$program" "$out/bin/"; done
cp tests/reference/*.py "$out/reference/" # bench_gpu.py and the modules that it imports
cp tools/gpu_kit/run.sh tools/gpu_sanitize.sh "$out/"
cat docs/*.md >"$out/text/documents.txt"
tools/list_files.sh | grep '\.[ch]$' | head -n 400 | xargs cat >"$out/text/sources.txt"
# The C library apart: it is used only where the machine's is older. NVIDIA's libraries name parts of it that ours do not.
ldd "$out"/bin/* | awk '/=> \// {print $3} /^\t\/.*ld-linux/ {print $1}' | sort -u | xargs -I FILE cp -L FILE "$out/lib/"
folder=$(dirname "$(ldd "$out/bin/bench_step" | awk '/libc\.so\.6/ {print $3; exit}')")
for part in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0; do cp -L "$folder/$part" "$out/libc/"; done
mv "$out"/lib/ld-linux-x86-64.so.2 "$out/libc/"
rm -f "$out"/lib/lib{c,m}.so.6 "$out"/lib/lib{dl,rt,pthread}.so.?
getconf GNU_LIBC_VERSION | sed 's/.* //' >"$out/libc/version"
strip --strip-debug "$out"/bin/* "$out"/lib/*.so* 2>/dev/null || true
# The test programs have the same code for GPUs in them: a large dictionary (512MiB) finds it.
tar cf - -C build "$1" | xz --lzma2=preset=2,dict="$2" >"$out.tar.xz"
du -h "$out.tar.xz"
