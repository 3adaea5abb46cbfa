#!/usr/bin/env bash
# Downloads the compiler zig, whose linker knows the symbols of old C libraries, into a directory, from Python's packages:
#   tools/release/install_zig.sh build/zig
set -eu
version=0.17.1 hash=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
[ -x "$1/ziglang/zig" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$(dirname "$0")/../install_packages.sh" pip
rm -rf "$1.new" && mkdir -p "$1.new"
python3 -m pip download --quiet --no-deps --require-hashes --dest "$1.new" -r <(echo "ziglang==$version --hash=sha256:$hash")
python3 -m zipfile -e "$1.new"/*.whl "$1.new"
chmod +x "$1.new/ziglang/zig"
rm -rf "$1" "$1.new"/*.whl && mv "$1.new" "$1"
