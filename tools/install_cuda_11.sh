#!/usr/bin/env bash
# Unpacks CUDA 11.8 of Debian 12 (non-free, a download of 910 MB) and its g++ 11 into a directory, without installing
# anything. It is the oldest toolkit that this project supports, and it supports the V100.
#   tools/install_cuda_11.sh build/cuda-11.8
set -eu
mkdir -p "$1"
directory=$(cd "$1" && pwd)
root=$directory/usr
[ -x "$root/bin/nvcc" ] && exit 0
packages=(nvidia-cuda-toolkit nvidia-cuda-dev libnvvm4 g++-11 gcc-11 cpp-11 libgcc-11-dev libstdc++-11-dev)

mkdir -p "$directory"/lists/partial "$directory"/cache/archives/partial "$directory"/packages
# shellcheck disable=SC2016 # apt expands $(SITE)
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | sort -u | head -n 1)
[ -n "$mirror" ] || { echo "this machine's apt has no archive of Debian, as 'deb URL bookworm main'" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main non-free" >"$directory/sources.list"
options=(-qq -o "Dir::Etc::SourceList=$directory/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$directory/lists" -o "Dir::Cache=$directory/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=)
apt-get "${options[@]}" update
(cd "$directory/packages" && apt-get "${options[@]}" download "${packages[@]}")
for package in "$directory"/packages/*.deb; do
    case $package in
    */nvidia-cuda-dev_*) parts=('./usr/include/*' '*/libcudart_static.a') ;; # most of the package is other libraries
    *) parts=('./usr/*') ;;
    esac
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$directory" --wildcards "${parts[@]}"
done
rm -rf "$directory"/packages "$directory"/lists "$directory"/cache

# The nvcc of the distribution looks for everything in /usr: points it to the directory instead.
inside=$root/lib/nvidia-cuda-toolkit
rm -f "$inside"/bin/g++ "$inside"/bin/gcc "$inside/bin/nvcc.profile" "$root/bin/nvcc"
cat >"$inside/bin/nvcc.profile" <<END
NVVMIR_LIBRARY_DIR = $inside/libdevice
PATH += $inside/bin:$root/bin:
INCLUDES += -I$root/include
END
printf '#!/bin/sh\nexec %s/bin/nvcc -ccbin %s/bin/g++-11 "$@"\n' "$inside" "$root" >"$directory/nvcc"
chmod +x "$directory/nvcc"
mv "$directory/nvcc" "$root/bin/nvcc" # last, so that an nvcc that exists is complete
