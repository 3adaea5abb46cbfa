#!/usr/bin/env bash
# Tests released programs (`make release-test`), as root: what they need of a system, and a session with each of them in minimal
# Debian systems, whose results must have the same bits as those of the programs in REFERENCE, and whose trainings resume theirs.
#   tests/release/run.sh RELEASED REFERENCE SOUNDS ROOTS
set -euo pipefail
cd "$(dirname "$0")/../.."
released=$(realpath "$1") reference=$(realpath "$2") sounds=$(realpath "$3") roots=$(realpath -m "$4")
programs=$(cd "$released" && echo train_*)
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
    [ "$size" -le 40000000 ] || fail "$program has $size bytes, which are more than 40 MB"
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

for suite in bullseye bookworm trixie; do
    tools/make_root.sh $suite "$roots/$suite"
    there=$roots/$suite/release-test
    rm -rf "$there"
    mkdir "$there"
    cp -r "$released" "$there/programs"
    cp -r tests/release/session.sh "$work/input" "$work/reference" "$there"
    start=$(date +%s)
    tools/in_root.sh "$roots/$suite" /release-test/session.sh /release-test/programs /release-test/input /release-test/out \
        /release-test/reference || fail "the session in $suite failed: see above"
    results "$there/out" | diff "$work/expected" - >"$work/difference" ||
        fail "in $suite, results differ from the reference's: $(cat "$work/difference")"
    printf '%-10s the same bits in %d files, with resumed trainings; %d s\n' $suite "$(wc -l <"$work/expected")" $(($(date +%s) - start))
    rm -rf "$there"
done
