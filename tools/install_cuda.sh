#!/usr/bin/env bash
# Downloads a CUDA toolkit into a directory: headers, nvcc and runtime, 100 MB, from NVIDIA's packages for Python. Tests
# that run kernels on the CPU and the compilation of kernels use it. Needs neither root nor a GPU. If the download fails,
# or with NO_INSTALL=1, prints one line that says how to get a toolkit.
#   tools/install_cuda.sh build/cuda
set -u
# shellcheck source=tools/wheels.sh
. "$(dirname "$0")/wheels.sh"
directory=$1
packages=("nvidia-cuda-runtime==13.0.*" "nvidia-cuda-crt==13.0.*" "nvidia-cuda-nvcc==13.0.*" "nvidia-nvvm==13.0.*")
[ -x "$directory/nvidia/cu13/bin/nvcc" ] && exit 0

download() {
    local new=$directory.new
    unpack_wheels "$new" "${packages[@]}" || return 1
    chmod +x "$new"/nvidia/cu13/bin/* "$new"/nvidia/cu13/nvvm/bin/* || return 1
    rm -rf "$directory" && mv "$new" "$directory"
}

mkdir -p "$(dirname "$directory")"
if [ "${NO_INSTALL:-}" != 1 ]; then
    download >"$directory.log" 2>&1 && exit 0
    rm -rf "$directory.new"
fi
echo "SKIPPED: the tests of the cuda device, which need a CUDA toolkit: install one (Debian non-free, Ubuntu: apt-get" \
    "install nvidia-cuda-toolkit) or set CUDA_HOME, or with pip: python3 -m pip download -d DIR ${packages[*]}"
