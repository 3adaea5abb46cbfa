#!/usr/bin/env bash
# Starts a packed kit in a bare system without a GPU, with a stand-in for the driver: every program must find its libraries and
# say that there is no GPU.
#   tests/kit/bare.sh KIT DRIVER ROOT      KIT.tar.xz, the folder of libcuda.so.1, a system of tools/make_root.sh
set -eu
there=$3/kit-test name=$(basename "$1")
rm -rf "$there"
mkdir "$there"
tar -xJf "$1.tar.xz" -C "$there"
cp "$2/libcuda.so.1" "$there"
root=$3
fail() { echo "kit in $root: $1" >&2; exit 1; }
tools/in_root.sh "$root" env LD_LIBRARY_PATH=/kit-test LIMIT=120 OUT=/kit-test/out "/kit-test/$name/run.sh" 1 >"$there/log" 2>&1 </dev/null || true
grep -q 'ok   version' "$there/out/results.txt" || { cat "$there/log" >&2; fail "the programs do not start"; }
grep -q 'NVIDIA driver .*/kit-test/libcuda.so.1' "$there/out/results.txt" || fail "the driver is not found"
tar -xzf "$there/out/logs_1.tgz" -C "$there"
tests=0
for log in "$there"/test_*.log "$there/wrappers.log"; do
    grep -q -e 'there is no NVIDIA GPU' -e '0x64 != 0' "$log" || # cudaErrorNoDevice
        { cat "$log" >&2; fail "$(basename "$log") does not say that there is no GPU"; }
    tests=$((tests + 1))
done
[ "$tests" -ge 15 ] || fail "only $tests tests were started"
rm -rf "$there"
echo "the kit's programs and $tests tests find their libraries in $(basename "$3")"
