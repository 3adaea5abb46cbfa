#!/usr/bin/env bash
# Checks what make compiles, with compilers that only note which files they get, in a copy of the sources: all of them at
# first, then nothing, then what is made from a file that changed, whatever its time, or was moved, removed or put back.
set -eu
unset MAKEFLAGS MFLAGS BUILD V CUDA_HOME TOOLKIT GPU
cd "$(dirname "$0")/.."
work=$PWD/build/check_build
build=build/release
archives=(libtrain libtests libemulated libcuda_tests ptx/libptx gpu_l4/libcuda_device gpu_l4/libcuda_tests)
fail() { echo "check_build: $*" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work/sources" "$work/toolkit/bin" "$work/toolkit/include"
touch "$work/toolkit/include/cuda_runtime_api.h"
# One model is enough.
tools/list_files.sh | grep -E '\.([ch]|cc|cpp|cu|mk|sh|yaml)$|^Makefile$|^REVISION$' |
    grep -vE '^((data|model|commands|tests)/(bert|cv|gpt|slm)|train_(bert|cv|gpt|slm))[./]' | xargs -d '\n' cp --parents -t "$work/sources"
cat >"$work/toolkit/bin/nvcc" <<'COMPILER'
#!/bin/sh
# Writes an empty file, and its prerequisites as compilers do, and notes what was compiled.
source= out=
while [ $# -gt 0 ]; do
    case $1 in
        -E | --help) exit ;;
        --list-gpu-arch) echo compute_89; exit ;;
        -o) out=$2; shift ;;
        *.c | *.cc | *.cpp | *.cu) source=$1 ;;
    esac
    shift
done
[ "$out" ] || exit 0
: >"$out"
[ "$source" ] || { echo "$out" >>../linked; exit; }
echo "$source" >>../compiled
sed -n '1i\'"$out: $source"' \\
s/^#include "\(.*\)"/\1 \\/p' "$source" >"${out%.*}.d"
COMPILER
chmod +x "$work/toolkit/bin/nvcc"
cd "$work/sources"

# Makes all programs and archives, and leaves what was compiled in the file compiled, each source once.
make_all() {
    : >../compiled
    : >../linked
    make -j2 GPU=l4 CC="$work/toolkit/bin/nvcc" CXX="$work/toolkit/bin/nvcc" CUDA_HOME="$work/toolkit" "$@" \
        train_psd "${archives[@]/%/.a}" >../log || { cat ../log >&2; exit 1; }
    sort -u -o ../compiled ../compiled
}
archives=("${archives[@]/#/$build/}")
includers_of() { xargs grep -lxF "#include \"$1\"" <../everything; }
all_members() { for a in "${archives[@]}"; do ar t "$a.a" | sed "s|^|$a |"; done | sort; }
# Fails unless these files were compiled since the last change: $2 and more.
expect_compiled() {
    diff <(printf '%s\n' "${@:2}" | sed '/^$/d' | sort) ../compiled >&2 || fail "$1: files that must be compiled (<) are not those that were (>)"
}

make_all
cp ../compiled ../everything
mapfile -t library < <(find base data model checkpoint report cost train estimate commands -name '*.c' -o -name '*.cc'; ls train_*.c)
[ -z "$(comm -23 <(printf '%s\n' "${library[@]}" | sort) ../compiled)" ] || fail "the first make does not compile all of the library"
grep -qx 'CC   base/json.c' ../log || fail "make prints no line for base/json.c"
grep -q -e -MMD ../log && fail "make prints whole commands without V=1"

make_all -n
grep -q toolkit ../log && { cat ../log >&2; fail "make -n after make would compile"; }

touch base/json.h
make_all V=1
mapfile -t includers < <(includers_of base/json.h)
expect_compiled "a newer header" "${includers[@]}"
grep -q -e '-MMD.* -c base/json.c -o' ../log || fail "make V=1 prints no command for base/json.c"

touch -d 2001-02-03 base/file.h data/formats/csv.c
mapfile -t includers < <(includers_of base/file.h)
make_all
expect_compiled "an older header and an older source" "${includers[@]}" data/formats/csv.c

# One file of each archive. They keep their times, which are older than the archives.
all_members >../expected
moved=()
for file in base/stop.c tests/helpers.c kernels/cuda/emulate/errors.cpp tests/cuda/schedules.c kernels/cuda/layernorm.cu; do
    name=$(basename "${file%.*}")
    mv "$file" "${file%/*}/moved_${file##*/}"
    sed -i "s| $name.o$| moved_$name.o|" ../expected
    moved+=("${file%/*}/moved_${file##*/}")
done
make_all
expect_compiled "moved files" "${moved[@]}"
diff <(sort ../expected) <(all_members) >&2 || fail "moved files: the members of the archives (>) are not today's (<)"

rm base/moved_stop.c
sed -i '/ moved_stop.o$/d' ../expected
make_all
expect_compiled "a removed file"
diff <(sort ../expected) <(all_members) >&2 || fail "a removed file: the members of the archives (>) are not today's (<)"
rm commands/psd/run.c
make_all
diff <(echo $build/gpu_l4/train_psd) ../linked >&2 || fail "a removed file of a program: the programs that must be linked (<) are not those that were (>)"

# A source that comes back is another one, even if its object is still there.
cp -p base/file.c ../kept
rm base/file.c
make_all
cp -p ../kept base/file.c
make_all
expect_compiled "a source that came back" base/file.c

cp -r "$work/toolkit" "$work/another"
make_all CUDA_HOME="$work/another"
find kernels/cuda -name '*.cu' | sort | comm -23 - ../compiled >../missing
[ ! -s ../missing ] || { cat ../missing >&2; fail "another toolkit: these kernels must be compiled again"; }
! grep -q '^base/' ../compiled || fail "another toolkit: sources that do not depend on it are compiled again"
make_all -n CUDA_HOME="$work/another"
! grep -q another ../log || { cat ../log >&2; fail "make -n after another toolkit's make would compile"; }
without=(GPU=none CC="$work/toolkit/bin/nvcc" CUDA_HOME= "$build/emulated/kernels/cuda/libraries/nvml.o")
make "${without[@]}" >../log
make -n "${without[@]}" | grep -q -e ' -c ' && fail "make -n after make without a toolkit would compile"

# Objects of different names are made by commands that differ in more than where they look for the toolkit's headers.
make -n V=1 CUDA_HOME="$work/toolkit" BUILD=build/again check check-deep check-emulated check-ptx check-bits check-profile check-gpu >../log
grep -e ' -c .* -o ' ../log | sort -u | sed -E 's/ -o \S+//; s/ -isystem \S+//g; s/ 2>.*//' | sort | uniq -d >../twice
[ ! -s ../twice ] || { cat ../twice >&2; fail "these commands make more than one object"; }

for target in gpu-test gpu-bench gpu-kit; do
    make -n $target GPU=l4 CUDA_HOME="$work/toolkit" >../log
    grep -q 'install_packages.sh build test' ../log || fail "make $target does not install the packages that it needs"
done
rm -rf "$work"
echo "make compiles every source that is another one, and nothing else"
