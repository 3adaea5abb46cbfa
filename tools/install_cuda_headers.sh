#!/usr/bin/env bash
# Gets CUDA's headers (8 MB, NVIDIA's own packages for Python) into the directory given, for the tests that run kernels
# on the CPU; no root and no GPU needed. With NO_INSTALL=1, or where it cannot, it says in one line how to get them.
#   tools/install_cuda_headers.sh build/cuda
set -u
directory=$1
packages=("nvidia-cuda-runtime==13.0.*" "nvidia-cuda-crt==13.0.*")
[ -e "$directory/nvidia/cu13/include/cuda_runtime_api.h" ] && exit 0

download() {
    local new=$directory.new wheel
    python3 -m pip --version || "$(dirname "$0")/install_packages.sh" pip || return 1
    rm -rf "$new" && mkdir -p "$new" || return 1
    python3 -m pip download --no-deps --dest "$new" "${packages[@]}" || return 1
    for wheel in "$new"/*.whl; do python3 -m zipfile -e "$wheel" "$new" || return 1; done
    rm -rf "$directory" "$new"/*.whl && mv "$new" "$directory"
}

mkdir -p "$(dirname "$directory")"
if [ "${NO_INSTALL:-}" != 1 ]; then
    download >"$directory.log" 2>&1 && exit 0
    rm -rf "$directory.new"
fi
echo "SKIPPED: the tests of the cuda device, which need CUDA's headers: install a CUDA toolkit (Debian non-free, Ubuntu:" \
    "apt-get install nvidia-cuda-dev) or set CUDA_HOME, or with pip: python3 -m pip download -d DIR ${packages[*]}"
