#!/usr/bin/env bash
# Downloads a CUDA toolkit into a directory, without installing anything: compiler, headers and the runtime for linking.
#   tools/install_cuda.sh VERSION DIRECTORY
# 12.4  from Debian 13 (non-free, 1 GB), with the g++ 12 of Debian 12: releases are built and kernels are tested with it
# 11.8  from Debian 12 (non-free, 910 MB), with its g++ 11: the oldest that this project supports
# 13.0  from NVIDIA's packages for Python (100 MB), for the newest cards and for machines without apt
# Needs neither root nor a GPU. If the download fails, or with NO_INSTALL=1, prints one line that says so and exits with 1.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/wheels.sh
. tools/wheels.sh
version=$1
case $version in 12.4 | 11.8 | 13.0) ;; *) echo "install_cuda: CUDA $version is not one of 12.4, 11.8, 13.0" >&2; exit 2 ;; esac
mkdir -p "$2"
directory=$(cd "$2" && pwd)

# debian SUITE COMMAND PACKAGE...: has apt-get update or download packages of a suite, whatever the machine has.
debian() {
    local suite=$1 mirror lists=$directory/lists/$1
    shift
    mkdir -p "$lists/partial" "$directory/cache/archives/partial"
    # shellcheck disable=SC2016 # apt expands $(SITE)
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | sort -u | head -n 1)
    [ -n "$mirror" ] || { echo "this machine's apt has no archive of Debian, as 'deb URL bookworm main'" >&2; return 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main non-free" >"$lists/sources.list"
    apt-get -qq -o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$lists" \
        -o "Dir::Cache=$directory/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@"
}

# unpack_debian SUITE PACKAGE...
unpack_debian() {
    local suite=$1 package
    shift
    debian "$suite" update || return 1
    mkdir -p "$directory/packages"
    (cd "$directory/packages" && debian "$suite" download "$@") || return 1
    for package in "$directory"/packages/*.deb; do
        case $package in
        # Most of it is other libraries: tar stops once it has these, and the unpacking ends by SIGPIPE.
        */nvidia-cuda-dev_*)
            { dpkg-deb --fsys-tarfile "$package" 2>/dev/null || true; } |
                tar -x -C "$directory" --occurrence=1 ./usr/include/ ./usr/lib/x86_64-linux-gnu/libcudart_static.a || return 1
            ;;
        *) dpkg-deb --fsys-tarfile "$package" | tar -x -C "$directory" --exclude=./usr/bin/nvcc || return 1 ;;
        esac
    done
    rm -rf "$directory/packages"
}

# from_debian SUITE COMPILER: the nvcc of the distribution looks for everything in /usr: points it to the directory instead.
from_debian() {
    local root=$directory/usr inside=$directory/usr/lib/nvidia-cuda-toolkit plus
    unpack_debian "$1" nvidia-cuda-toolkit nvidia-cuda-dev libnvvm4 || return 1
    plus=$(command -v "g++-$2") || {
        unpack_debian bookworm "g++-$2" "gcc-$2" "cpp-$2" "libgcc-$2-dev" "libstdc++-$2-dev" || return 1
        plus=$root/bin/g++-$2
    }
    rm -rf "$directory/lists" "$directory/cache" "$inside"/bin/{g++,gcc,nvcc.profile}
    cat >"$inside/bin/nvcc.profile" <<END
NVVMIR_LIBRARY_DIR = $inside/libdevice
PATH += $inside/bin:$root/bin:
INCLUDES += -I$root/include
END
    printf '#!/bin/sh\nexec %s/bin/nvcc -ccbin %s "$@"\n' "$inside" "$plus" >"$directory/nvcc"
    chmod +x "$directory/nvcc"
    mv "$directory/nvcc" "$root/bin/nvcc" # last: where it is, the rest is, too
}

from_python() {
    local new=$directory.new
    unpack_wheels "$new" "nvidia-cuda-runtime==$version.*" "nvidia-cuda-crt==$version.*" "nvidia-cuda-nvcc==$version.*" \
        "nvidia-nvvm==$version.*" || return 1
    chmod +x "$new"/nvidia/cu13/bin/* "$new"/nvidia/cu13/nvvm/bin/* || return 1
    mv "$new/nvidia/cu13" "$directory/usr" && rm -rf "$new"
}

fetch() {
    case $version in
    12.4) from_debian trixie 12 ;;
    11.8) from_debian bookworm 11 ;;
    13.0) from_python ;;
    esac
}

[ ! -x "$directory/usr/bin/nvcc" ] || exit 0
problem="NO_INSTALL=1"
if [ "${NO_INSTALL:-}" != 1 ]; then
    echo "fetching CUDA $version into ${directory#"$PWD/"}"
    fetch >"$directory.log" 2>&1 && exit 0
    problem="the download failed: ${directory#"$PWD/"}.log"
fi
rm -rf "$directory" "$directory.new"
echo "CUDA $version is not in ${directory#"$PWD/"}, where tools/install_cuda.sh fetches it: $problem" >&2
exit 1
