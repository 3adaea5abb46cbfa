#!/usr/bin/env bash
# Tests a release (`make release-test`), as root: what the programs need of a system, and, in minimal Debian systems, where the
# archive is unpacked, a session with each program, whose results must have the same bits as those of the programs in REFERENCE,
# and whose trainings resume theirs. There is a stand-in for NVIDIA's driver in several versions, DRIVER/libcuda.so.1.
#   tests/release/run.sh DIST RELEASED REFERENCE SOUNDS DRIVER ROOTS
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$1 released=$(realpath "$2") reference=$(realpath "$3") sounds=$(realpath "$4") driver=$(realpath "$5") roots=$(realpath -m "$6")
programs=$(cd "$released" && echo train_*)
version=$(sed -n 's/.*version_number\[\] = "\(.*\)";/\1/p' base/version.c)
archive=train.c-$version-linux-x86_64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'release-test: %s\n' "$1" >&2
    exit 1
}

# Fails unless the words of the input are among the others: only_among WHAT WORD...
only_among() {
    local word
    while read -r word; do
        case " ${*:2} " in *" $word "*) ;; *) fail "$1 $word" ;; esac
    done
}

# Prints the digests of the results of a session, as they do not depend on time: weights, tables, arrays, sounds, texts.
results() {
    (cd "$1" && find . -type f \( -name model.safetensors -o -name optimizer.safetensors -o -name '*.npy' -o -name '*.csv' \
        -o -name '*.wav' -o -name '*.pth' -o -name '*.txt' -o -name slm_generated \) -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}

# Prints the digest of the weights after the last step of a run.
final_weights() { find "$1" -path '*/step_00000004/model.safetensors' -exec sha256sum {} + | cut -d ' ' -f 1; }

(cd "$released" && sha256sum --check --quiet SHA256SUMS)
for program in $programs; do
    file=$released/$program
    objdump -p "$file" | sed -n 's/^ *NEEDED *//p' | only_among "$program needs the library" \
        libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2
    newest=$(objdump -T "$file" | sed -n 's/.*[( ]\(GLIBC[A-Z]*\|[A-Z]*CXX[A-Z]*\|GCC\)_\([^ )]*\).*/\1_\2/p' | sed 's/^GLIBC_//' | sort -uV | tail -n 1)
    [[ $newest =~ ^[0-9.]+$ ]] || fail "$program needs symbols of the version '$newest', expected those of glibc up to 2.17"
    [ "$(printf '%s\n' "$newest" 2.17 | sort -V | tail -n 1)" = 2.17 ] || fail "$program needs GLIBC_$newest"
    size=$(stat -c %s "$file")
    [ "$size" -le 49000000 ] || fail "$program has $size bytes, which are more than the 49 MB of docs/RELEASE.md"
    readelf -W -h -l -d "$file" >"$work/elf"
    for mark in 'DYN (Position-Independent' 'GNU_RELRO' 'BIND_NOW' 'GNU_STACK .* RW '; do
        grep -q "$mark" "$work/elf" || fail "$program lacks '$mark' of readelf: it is not hardened"
    done
    objdump -T "$file" >"$work/symbols"
    for symbol in __stack_chk_fail __memcpy_chk; do
        grep -q " $symbol\$" "$work/symbols" || fail "$program does not call $symbol: it is not hardened"
    done
    "$file" --version >"$work/version"
    "$file" --licenses >"$work/licenses"
    while read -r library _; do
        grep -q "^  ${library//_/ } " "$work/version" || fail "$program --version does not name ${library//_/ }"
        grep -q "^======== ${library//_/ } " "$work/licenses" || fail "$program --licenses does not print that of ${library//_/ }"
    done < <(grep -v '^#' tools/release/libraries.txt)
    printf '%-10s %9d bytes, needs GLIBC_%s\n' "$program" "$size" "$newest"
done

mkdir "$work/input"
cp demo/cv.yaml demo/psd_finetune.yaml "$work/input"
"$sounds" "$work/input/sounds"
tests/release/session.sh "$reference" "$work/input" "$work/reference" "$work/reference"
results "$work/reference" >"$work/expected"
for program in $programs; do
    run=$work/reference/${program#train_}
    weights=$(final_weights "$run")
    [ -n "$weights" ] || fail "the session has no training of $program"
    [ "$weights" = "$(final_weights "${run}_resumed")" ] || fail "the training of $program that was resumed has other weights"
done

# SUITE RELEASE:CUDA...: a session in the suite for each driver.
(cd "$dist" && sha256sum --check --quiet "$archive.tar.gz.sha256")
tested=
while read -r suite drivers; do
    tools/make_root.sh "$suite" "$roots/$suite" </dev/null
    there=$roots/$suite/release-test
    for both in $drivers; do
        name=${both%:*} cuda=${both#*:}
        start=$(date +%s)
        rm -rf "$there"
        mkdir -p "$there/driver"
        cp "$dist/$archive.tar.gz" "$there"
        cp -r tests/release/session.sh tests/release/drivers.sh "$work/input" "$work/reference" "$there"
        cp "$driver/libcuda.so.1" "$there/driver/libcuda.so.$name"
        ln -s "libcuda.so.$name" "$there/driver/libcuda.so.1"
        in_system() { tools/in_root.sh "$roots/$suite" env LD_LIBRARY_PATH=/release-test/driver DRIVER_VERSION="$cuda" "$@" </dev/null; }
        in_system sh -c "cd /release-test && tar -xzf $archive.tar.gz && cd $archive && sha256sum --check --quiet SHA256SUMS" ||
            fail "the archive cannot be unpacked in $suite"
        in_system /release-test/drivers.sh "/release-test/$archive" "$name" "$cuda" || fail "the driver $name in $suite: see above"
        in_system /release-test/session.sh "/release-test/$archive" /release-test/input /release-test/out /release-test/reference ||
            fail "the session in $suite failed: see above"
        results "$there/out" | diff "$work/expected" - >"$work/difference" ||
            fail "in $suite, results differ from the reference's: $(cat "$work/difference")"
        printf '%-10s driver %s: the same bits in %d files, with resumed trainings; %d s\n' "$suite" "$name" "$(wc -l <"$work/expected")" \
            $(($(date +%s) - start))
    done
    rm -rf "$there"
    tested+=" $suite"
done <<'SYSTEMS'
bullseye 525.60.13:12000 550.54.15:12040
bookworm 570.86.15:12080
trixie 580.65.06:13000
SYSTEMS
[ "$tested" = " bullseye bookworm trixie" ] || fail "only$tested were tested"
