#!/bin/sh
# What programs say of a driver that they can use, and of one that is too old, with a stand-in that finds no GPU. A root that
# has only a C library and coreutils can run it.
#   drivers.sh PROGRAMS RELEASE CUDA      the driver's, such as 525.60.13 and 12000
set -eu
cuda=$(($3 / 1000)).$(($3 % 1000 / 10))

# says PROGRAM WORDS ARGUMENT...
says() {
    program=$1 words=$2
    shift 2
    found=$("$program" "$@" 2>&1) || [ "$1" != --version ] || { echo "$program $*: $found"; exit 1; }
    case $found in
    *"$words"*) ;;
    *)
        printf '%s %s: expected "%s", found:\n%s\n' "$program" "$*" "$words" "$found"
        exit 1
        ;;
    esac
}

for program in "$1"/train_*; do
    says "$program" "$2, CUDA $cuda (this program needs CUDA 12): " --version
done
says "$1/train_psd" "there is no NVIDIA GPU: the driver ($2, CUDA $cuda) finds none" finetune --calibrate --device cuda
export DRIVER_VERSION=11080
says "$1/train_psd" "(${2}, CUDA 11.8) is older than this program needs (CUDA 12, driver 525.60" finetune --calibrate --device cuda
