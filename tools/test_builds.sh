#!/usr/bin/env bash
# Builds the programs in minimal Debian systems with each compiler of a list, and runs the tests that depend most on compiler
# and libraries, as the gcc of Debian 12 and 13 builds them. Only root can run it. The systems stay in FOLDER, for the next time:
#   tools/test_builds.sh FOLDER
set -eu
unset MAKEFLAGS MFLAGS
[ $# -eq 1 ] || { echo "expected: test_builds.sh FOLDER; found: $*" >&2; exit 2; }
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
programs=(train_*.c)
tests=(base/test_hardening kernels/test_device kernels/test_ops_layers kernels/test_ops_volumes kernels/test_stem
    data/test_audio data/test_sentencepiece data/test_text cv/test_sdt cv/test_tiff
    gpt/test_golden slm/test_golden bert/test_golden psd/test_golden_steps)

# Runs a command in the folder of the sources in the system; shows what it printed if it fails.
run() {
    # shellcheck disable=SC2016 # the inner shell expands it
    tools/in_root.sh "$root" sh -c 'cd /train.c && exec "$@"' sh "$@" >"$root.log" 2>&1 || { cat "$root.log"; return 1; }
}

# Makes the given targets with a compiler.
build() {
    local compiler=$1 start=$SECONDS plus=${1/gcc/g++}
    shift
    # Debian 13 links with the libstdc++ of gcc-13 itself, although its libraries need, and get, the newer one of the system.
    run make -s -k -j"$(nproc)" GPU=none CC="$compiler" CXX="${plus/clang/clang++}" BUILD="build/$compiler" \
        LINK="$compiler -fopenmp -pie -Wl,-z,relro,-z,now,--allow-shlib-undefined" "${@/#/build/$compiler/}" ||
        { echo "FAILED: $suite, $compiler"; failed=$((failed + 1)); return; }
    echo "$suite, $compiler: built $# targets without a warning in $((SECONDS - start)) s"
}

# Builds and tests in the system of a suite, with its gcc and with further compilers.
test_suite() {
    local suite=$1 root=$folder/$1 packages=() compiler
    shift
    tools/make_root.sh "$suite" "$root"
    rm -rf --one-file-system "$root/train.c"
    mkdir "$root/train.c"
    tools/list_files.sh | xargs -d '\n' cp --parents --preserve=timestamps -t "$root/train.c"
    for compiler; do
        case $compiler in
        gcc-*) packages+=("$compiler" "${compiler/gcc/g++}") ;;
        clang-*) packages+=("$compiler" "${compiler/clang/libomp}-dev") ;;
        esac
    done
    run tools/install_packages.sh build test
    [ ${#packages[@]} -eq 0 ] || run apt-get install -y --no-install-recommends "${packages[@]}"
    for compiler in gcc "$@"; do build "$compiler" "${programs[@]%.c}"; done
    [ "$suite" = bullseye ] || test_gcc
    rm -rf --one-file-system "$root/train.c" "$root.log"
}

test_gcc() {
    build gcc "${tests[@]/#/tests/}"
    if run env BUILD=build/gcc tools/run_tests.sh "${tests[@]/#/build/gcc/tests/}"; then
        echo "$suite: $(tail -n 1 "$root.log")"
    else
        failed=$((failed + 1))
    fi
}

failed=0
test_suite bullseye
test_suite bookworm gcc-11 clang-14
test_suite trixie gcc-13 clang-19
[ "$failed" -eq 0 ] || { echo "test_builds: $failed of the builds and tests above failed" >&2; exit 1; }
