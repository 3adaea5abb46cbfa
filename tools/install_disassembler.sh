#!/usr/bin/env bash
# Downloads cuobjdump and nvdisasm into a directory, from NVIDIA's packages for Python, for tests/cuda/sass.py: 6 MB. They
# read what older versions of nvcc make. Needs neither root nor a GPU. If the download fails, or with NO_INSTALL=1, prints
# one line that says so.
#   tools/install_disassembler.sh build/disassembler
set -u
directory=$1
packages() {
    cat <<'PACKAGES'
nvidia-cuda-cuobjdump==13.5.37 --hash=sha256:38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58
nvidia-cuda-nvdisasm==13.5.37 --hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
PACKAGES
}
version=$(packages | sha256sum)
[ "$(cat "$directory/version" 2>/dev/null)" = "$version" ] && exit 0

download() {
    local new=$directory.new wheel
    python3 -m pip --version || "$(dirname "$0")/install_packages.sh" pip || return 1
    rm -rf "$new" && mkdir -p "$new" || return 1
    python3 -m pip download --no-deps --require-hashes --dest "$new" -r <(packages) || return 1
    for wheel in "$new"/*.whl; do python3 -m zipfile -e "$wheel" "$new" || return 1; done
    mv "$new"/nvidia/cu13/bin/* "$new" && rm -r "$new"/nvidia "$new"/*.whl "$new"/*.dist-info || return 1
    chmod +x "$new"/cuobjdump "$new"/nvdisasm && echo "$version" >"$new/version" || return 1
    rm -rf "$directory" && mv "$new" "$directory"
}

mkdir -p "$(dirname "$directory")"
problem="NO_INSTALL=1"
if [ "${NO_INSTALL:-}" != 1 ]; then
    problem="NVIDIA has none for $(uname -m)"
    if [ "$(uname -m)" = x86_64 ]; then
        download >"$directory.log" 2>&1 && exit 0
        problem="it could not be downloaded: $directory.log"
    fi
fi
rm -rf "$directory.new" "$directory/version"
echo "SKIPPED: the budgets of machine code, which need NVIDIA's disassembler: $problem"
