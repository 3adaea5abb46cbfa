#!/usr/bin/env bash
# Downloads nvdisasm into a directory, from NVIDIA's package for Python, for tests/cuda/sass.py: 6 MB. It reads what older
# versions of nvcc make. Needs neither root nor a GPU. If the download fails, or with NO_INSTALL=1, prints
# one line that says so.
#   tools/install_disassembler.sh build/disassembler
set -u
# shellcheck source=tools/wheels.sh
. "$(dirname "$0")/wheels.sh"
directory=$1
packages() {
    cat <<'PACKAGES'
nvidia-cuda-nvdisasm==13.5.37 --hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
PACKAGES
}
version=$(packages | sha256sum)
[ "$(cat "$directory/version" 2>/dev/null)" = "$version" ] && exit 0

download() {
    local new=$directory.new
    unpack_wheels "$new" --require-hashes -r <(packages) || return 1
    mv "$new"/nvidia/cu13/bin/* "$new" && rm -r "$new"/nvidia "$new"/*.dist-info || return 1
    chmod +x "$new"/nvdisasm && echo "$version" >"$new/version" || return 1
    rm -rf "$directory" && mv "$new" "$directory"
}
download_or_say "$directory" "the budgets of machine code, which need NVIDIA's disassembler"
