#!/usr/bin/env bash
# Downloads cuBLASLt, cuDNN, NCCL and NVML's header in several versions into a directory, from NVIDIA's packages for Python, for
# tests/contracts: an include and a lib folder per version of CUDA. Downloads 3.4 GB, keeps 3.0 GB; needs neither root
# nor a GPU. If the download fails, or with NO_INSTALL=1, prints one line that says so.
#   tools/install_gpu_libraries.sh build/gpu-libraries
set -u
# shellcheck source=tools/wheels.sh
. "$(dirname "$0")/wheels.sh"
directory=$1

# folder | package | SHA-256 of the package | files of its lib folder. The oldest release of each major version that is
# packaged, and for CUDA 13 the newest. cuDNN 8.5 is linked with cuBLAS 11. NCCL: the first for CUDA 12 (2.16.2), the newest.
packages() {
    cat <<'PACKAGES'
cuda11 nvidia-cuda-runtime-cu11==11.7.99 cc768314ae58d2641f07eac350f40f99dcb35719c4faff4bc458a7cd2b119e31
cuda11 nvidia-cublas-cu11==11.10.3.66 d32e4d75f94ddfb93ea0a5dda08389bcc65d8916a25cb9f37ac89edaeed3bded libcublasLt.so.11 libcublas.so.11
cuda11 nvidia-cudnn-cu11==8.5.0.96 402f40adfc6f418f9dae9ab402e773cfed9beae52333f6d86ae3107a1b9527e7 libcudnn_cnn_train.so.8 libcudnn_cnn_infer.so.8 libcudnn_ops_train.so.8 libcudnn_ops_infer.so.8
cuda12 nvidia-cuda-runtime-cu12==12.0.107 9ab985dd92728e1c577bb75ae83dcc42357ce7c00016c782e8b196f6fea05b91
cuda12 nvidia-cublas-cu12==12.0.1.189 f366475992ddfd5ef3e922457df1238b52ddcf63abecd48522130bd5eedfae77 libcublasLt.so.12
cuda12 nvidia-cudnn-cu12==9.0.0.312 8d440a94da2f7e729d375d5a03e0f423f2bc03a27ee87d5817c1068f69de9828 libcudnn_cnn.so.9 libcudnn_ops.so.9 libcudnn_graph.so.9
cuda12 nvidia-nccl-cu12==2.16.2 b69f072630a3ae824409e5b3075ff7bfbf81c125ab583dd4272e32365c902d7c libnccl.so.2
cuda12 nvidia-nvml-dev-cu12==12.0.76 2f4dc66dc3af6088f2d9d5e107c2944b181983e2edd7b7683992392fb7bb0b04
cuda13 nvidia-cuda-runtime==13.5.37 df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d
cuda13 nvidia-cublas==13.10.0.20 dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84 libcublasLt.so.13
cuda13 nvidia-cudnn-cu13==9.28.1.4 a54f205b1db1f2895d99f398754db1369816f0569dd459731f925635cf7b65ec libcudnn_cnn.so.9 libcudnn_ops.so.9 libcudnn_graph.so.9
cuda13 nvidia-nccl-cu13==2.32.3 1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3 libnccl.so.2
cuda13 nvidia-nvml-dev==13.5.37 7394fcbefa9ba537e8238cbb1caa4cd2db6bbfbff208d217a8a884947113ae6d
PACKAGES
}
version=$(sha256sum <"$0")
[ "$(cat "$directory/version" 2>/dev/null)" = "$version" ] && exit 0

# fetch FOLDER PACKAGE HASH FILE...: downloads one package and unpacks its headers and these files, all of which must be there.
fetch() {
    local folder=$new/$1 package=$2 hash=$3 wheel=$new/${2%%=*}
    shift 3
    mkdir -p "$folder/include" "$folder/lib" "$wheel"
    python3 -m pip download --quiet --no-cache-dir --no-deps --require-hashes --dest "$wheel" \
        -r <(echo "$package --hash=sha256:$hash") || return 1
    python3 - "$folder" "$wheel"/*.whl "$@" <<'END' || return 1
import pathlib, shutil, sys, zipfile
folder, wheel, *libraries = sys.argv[1:]
with zipfile.ZipFile(wheel) as packed:
    for member in packed.namelist():
        place, found, name = member.partition("/include/")
        if not found:
            place, found, name = member.partition("/lib/")
            if name not in libraries:
                continue
            libraries.remove(name)
        if name:
            path = pathlib.Path(folder, found.strip("/"), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(member) as source, path.open("wb") as to:
                shutil.copyfileobj(source, to, 1 << 20)
sys.exit(f"{wheel} lacks {libraries}" if libraries else 0)
END
    rm -r "$wheel"
}
export -f fetch

download() {
    require_pip && rm -rf "$new" && mkdir -p "$new" || return 1
    # shellcheck disable=SC2016
    packages | xargs -P 2 -I LINE bash -c 'fetch $1' fetch LINE || return 1
    echo "$version" >"$new/version"
    rm -rf "$directory" && mv "$new" "$directory"
}
export new=$directory.new
download_or_say "$directory" "the contracts with NVIDIA's libraries, which need them"
