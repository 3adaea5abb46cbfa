#!/usr/bin/env bash
# What programs with the CUDA runtime say of the driver and of NVIDIA's libraries: starts real ones with a stand-in for the
# driver (tests/kernels/substitute/driver.c). Needs no compiler, so that released programs can be tested where there is none.
#   PROGRAMS=/opt/train.c DRIVER=/tmp/driver GPU_LIBRARIES=/tmp/cublas/lib:/tmp/cudnn/lib tests/psd/gpu_startup.sh
# PROGRAMS: the folder of the programs; those without a cuda device are an error. DRIVER: the folder of the stand-in,
# libcuda.so.1. GPU_LIBRARIES: the folders of cuBLASLt and cuDNN, by default those of the CUDA toolkit and
# of tools/install_gpu_libraries.sh. All are absolute.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
PROGRAMS=${PROGRAMS:-$root/build/release/gpu_l4_linked}
DRIVER=${DRIVER:-$root/build/release/tests/kernels/driver}
GPU_LIBRARIES=${GPU_LIBRARIES:-${CUDA_HOME:-/usr/local/cuda}/lib64:$root/build/gpu-libraries/cuda13/lib}
DRIVER=$(realpath "$DRIVER")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
mkfifo "$work/line"
passed=0 failed=0 skipped=0
unset CUDA_VISIBLE_DEVICES DRIVER_INIT DRIVER_VERSION KUBERNETES_SERVICE_HOST TRAINC_CUBLASLT TRAINC_CUDNN TRAINC_NVML

[ -f "$DRIVER/libcuda.so.1" ] || { echo "gpu_startup: $DRIVER/libcuda.so.1 was not found: make it" >&2; exit 2; }
[ -x "$PROGRAMS/train_psd" ] || { echo "gpu_startup: $PROGRAMS/train_psd was not found: build it" >&2; exit 2; }

# Opens the device and needs no data.
calibrate=("$PROGRAMS/train_psd" finetune --calibrate --calibration "$work/rates")

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf 'gpu_startup: %s\n' "$1"
    printf '    expected: %s\n    found:    %s\n' "$2" "$3"
}
skip() {
    skipped=$((skipped + 1))
    echo "SKIPPED: $1"
}

# contains FACT TEXT WORDS
contains() { if [[ $2 == *"$3"* ]]; then pass; else fail "$1" "$3" "$2"; fi; }

# refuses FACT WORDS [VARIABLE=VALUE...]: with --device cuda the program ends with status 1 and one line, which has the words.
refuses() {
    local fact=$1 words=$2 status
    shift 2
    env LD_LIBRARY_PATH="$DRIVER" "$@" "${calibrate[@]}" --device cuda >"$work/out" 2>"$work/err"
    status=$?
    contains "$fact" "$(cat "$work/err")" "$words"
    if [ "$status" -eq 1 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
        grep -q ': --device cuda: ' "$work/err"; then
        pass
    else
        fail "$fact" "status 1 and one line" "status $status and $(cat "$work/out" "$work/err")"
    fi
}

# falls_back FACT WORDS [VARIABLE=VALUE...]: without --device the CPU computes, and a line says why.
card=$(cd /sys/bus/pci/devices 2>/dev/null && grep -l '^0x10de' -- */vendor | sed 's|vendor|class|' | xargs -r grep -l '^0x03')
falls_back() {
    local fact=$1 words=$2 line='' program
    shift 2
    [ -z "$card" ] || { skip "$fact on a machine without a card: there is one"; return; }
    env LD_LIBRARY_PATH="$DRIVER" "$@" "${calibrate[@]}" >"$work/line" 2>"$work/err" &
    program=$!
    read -r line <"$work/line"
    kill "$program" 2>/dev/null # the rest would take seconds
    wait "$program" 2>/dev/null
    contains "$fact" "$line" "; no GPU is used: $words"
}

# library NAME [VARIABLE=VALUE...]: prints what --version says of a library.
library() {
    local name=$1
    shift
    env "$@" "$PROGRAMS/train_psd" --version | sed -n "s/^  $name  *//p"
}

# ---- the driver ----

needed=$(library "NVIDIA driver" LD_LIBRARY_PATH="$DRIVER" | sed -n 's/.*(this program needs CUDA \([0-9]*\)).*/\1/p')
[ -n "$needed" ] || { echo "gpu_startup: $PROGRAMS/train_psd has no cuda device, or is an older one" >&2; exit 1; }
older=$((needed - 1))
new=DRIVER_VERSION=$((needed * 1000))
old=DRIVER_VERSION=$((older * 1000 + 40))

refuses "an older driver" "the NVIDIA driver (CUDA $older.4) is older than this program needs (CUDA $needed, driver " $old
refuses "an older driver" "install a newer one, or use a program that was built with CUDA $older" $old
falls_back "an older driver" "the NVIDIA driver (CUDA $older.4) is older" $old
refuses "no GPU" "there is no NVIDIA GPU: the driver (CUDA $needed.0) finds none. nvidia-smi -L" $new DRIVER_INIT=100
refuses "a newer driver" "there is no NVIDIA GPU: the driver (CUDA $((needed + 1)).1)" \
    DRIVER_VERSION=$((needed * 1000 + 1010)) DRIVER_INIT=100
refuses "a hidden GPU" "there is no NVIDIA GPU that CUDA_VISIBLE_DEVICES=7 does not hide: unset it" $new DRIVER_INIT=100 \
    CUDA_VISIBLE_DEVICES=7
falls_back "a hidden GPU" "there is no NVIDIA GPU that CUDA_VISIBLE_DEVICES= does not hide" $new CUDA_VISIBLE_DEVICES=

# The status of the driver, and words of the message.
while read -r status words; do
    refuses "a driver that does not start with status $status" "$words (error $status, driver CUDA $needed.0): " $new \
        DRIVER_INIT="$status"
done <<'STATUSES'
34 libcuda.so.1 is not a driver but the toolkit's stub for linking
46 the GPU is busy, or closed to this process
2 the GPU has no memory left to start with
214 the GPU has memory errors that cannot be corrected
221 the NVIDIA driver lacks its compiler (libnvidia-ptxjitcompiler.so.1), which this program needs for this new card
222 the NVIDIA driver is too old to compile this program for this new card
304 the NVIDIA driver cannot use its devices
802 the connections between the GPUs are not ready
803 the NVIDIA driver's library and its kernel module are of different versions
804 libcuda.so.1 is from CUDA's compatibility package, which this card does not support
805 CUDA's multi-process service does not answer
999 the NVIDIA driver does not start
3 CUDA does not start: initialization error
STATUSES
falls_back "a driver that does not start" "the NVIDIA driver does not start (error 999" $new DRIVER_INIT=999

mkdir "$work/damaged" "$work/named"
: >"$work/damaged/libcuda.so.1"
refuses "a damaged driver" "the NVIDIA driver cannot be loaded ($work/damaged/libcuda.so.1: file too short): install it anew" \
    LD_LIBRARY_PATH="$work/damaged"
cp "$DRIVER/libcuda.so.1" "$work/named/libcuda.so.580.65.06"
ln -s libcuda.so.580.65.06 "$work/named/libcuda.so.1"
refuses "a driver's release" "the NVIDIA driver does not start (error 999, driver 580.65.06, CUDA $needed.0): " $new \
    DRIVER_INIT=999 LD_LIBRARY_PATH="$work/named"

if [ -e /dev/nvidiactl ] || /sbin/ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1 '; then
    skip "what is said without a driver: there is one"
else
    refuses "no driver in a container" "there is no NVIDIA driver in this container (libcuda.so.1 is not found): start it with \
--gpus all" LD_LIBRARY_PATH= KUBERNETES_SERVICE_HOST=10.0.0.1
    if [ -e /.dockerenv ] || [ -e /run/.containerenv ]; then
        refuses "no driver" "there is no NVIDIA driver in this container" LD_LIBRARY_PATH=
    else
        refuses "no driver" "there is no NVIDIA driver (libcuda.so.1 is not found): install one (" LD_LIBRARY_PATH=
    fi
    falls_back "no driver" "there is no NVIDIA driver" LD_LIBRARY_PATH=
    contains "--version without a driver" "$(library "NVIDIA driver" LD_LIBRARY_PATH=)" "the CPU: libcuda.so.1 is not installed"
fi

# A container has the driver's libraries where the system does not look: seen by this shell alone.
mounted="mount -t tmpfs none /usr/local && mkdir -p /usr/local/nvidia/lib64 && cp '$DRIVER/libcuda.so.1' /usr/local/nvidia/lib64"
if [[ $PROGRAMS == /usr/local/* || $DRIVER == /usr/local/* ]] || ! unshare --mount sh -c "$mounted" 2>/dev/null ||
    /sbin/ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1 '; then
    skip "a driver that is mounted in /usr/local/nvidia: that needs root's rights and no other driver"
else
    contains "a driver that is mounted" "$(unshare --mount sh -c "$mounted && $new DRIVER_INIT=999 '${calibrate[0]}' finetune \
        --calibrate --calibration '$work/rates' --device cuda" 2>&1)" "the NVIDIA driver does not start (error 999"
    contains "--version with a mounted driver" "$(unshare --mount sh -c "$mounted && $old '${calibrate[0]}' --version")" \
        "CUDA $older.4 (this program needs CUDA $needed): /usr/local/nvidia/lib64/libcuda.so.1"
fi

# A machine with these PCI devices, seen by this shell alone: VENDOR CLASS DEVICE. Prints the first line.
with_card() {
    unshare --mount sh -c "mount -t tmpfs none /sys/bus/pci && mkdir -p /sys/bus/pci/devices/0000:01:00.0 &&
        cd /sys/bus/pci/devices/0000:01:00.0 && echo $1 >vendor && echo $2 >class && echo $3 >device && cd / &&
        LD_LIBRARY_PATH='$DRIVER' $4 exec timeout 2 '${calibrate[0]}' finetune --calibrate --calibration '$work/rates'" 2>&1 | head -n 1
}
if ! unshare --mount mount -t tmpfs none /sys/bus/pci 2>/dev/null; then
    skip "a card that is here and cannot be used: that needs root's rights"
else
    contains "an L4 with an older driver" "$(with_card 0x10de 0x030200 0x27b8 $old)" \
        "an NVIDIA card is here, and cannot be used: the NVIDIA driver (CUDA $older.4) is older"
    contains "an L4 that is hidden" "$(with_card 0x10de 0x030200 0x27b8 "$new CUDA_VISIBLE_DEVICES=")" "; no GPU is used: "
    contains "a Pascal card" "$(with_card 0x10de 0x030000 0x1b06 $old)" "; no GPU is used: "
    contains "another maker's card" "$(with_card 0x1002 0x030000 0x7448 $old)" "; no GPU is used: "
    contains "NVIDIA's sound" "$(with_card 0x10de 0x040300 0x22bd $old)" "; no GPU is used: "
fi

for program in "$PROGRAMS"/train_*; do
    [ -x "$program" ] || continue
    contains "$program" "$(LD_LIBRARY_PATH=$DRIVER "$program" --version)" "(this program needs CUDA $needed): $DRIVER/libcuda.so.1"
done

# ---- NVIDIA's libraries ----

contains "--version with a driver" "$(library "NVIDIA driver" LD_LIBRARY_PATH="$work/named" $old)" \
    "580.65.06, CUDA $older.4 (this program needs CUDA $needed): $work/named/libcuda.so.580.65.06"
contains "cuBLASLt is not wanted" "$(library cuBLASLt TRAINC_CUBLASLT=none)" "our own matrix products: TRAINC_CUBLASLT=none"
contains "cuDNN is not wanted" "$(library cuDNN TRAINC_CUDNN=none)" "our own convolutions: TRAINC_CUDNN=none"
contains "cuBLASLt is not there" "$(library cuBLASLt TRAINC_CUBLASLT=/nowhere/libcublasLt.so)" \
    "our own matrix products: /nowhere/libcublasLt.so is not installed"
contains "cuDNN is not there" "$(library cuDNN TRAINC_CUDNN=/nowhere/libcudnn.so)" \
    "our own convolutions: /nowhere/libcudnn.so is not installed"
contains "NVML is not there" "$(library NVML TRAINC_NVML=/nowhere/libnvidia-ml.so.1)" \
    "no sensors: /nowhere/libnvidia-ml.so.1 is not installed"
contains "a damaged cuDNN" "$(library cuDNN TRAINC_CUDNN="$work/damaged/libcuda.so.1")" \
    "our own convolutions: $work/damaged/libcuda.so.1: file too short"

# found NAME SUBSTITUTE FILE...: the program opens the first of these files that is in GPU_LIBRARIES, from there, and asks it
# for its version; or it says which library that one needs is missing.
found() {
    local name=$1 substitute=$2 file folder path='' text missing
    shift 2
    local folders
    IFS=: read -ra folders <<<"$GPU_LIBRARIES"
    for file in "$@"; do
        for folder in "${folders[@]}"; do
            [ -n "$path" ] || [ ! -f "$folder/$file" ] || path=$folder/$file
        done
    done
    if [ -z "$path" ]; then
        skip "the real $name: it is not in $GPU_LIBRARIES"
        return
    fi
    text=$(library "$name" LD_LIBRARY_PATH="$GPU_LIBRARIES")
    missing=$(LD_LIBRARY_PATH=$GPU_LIBRARIES ldd "$path" | sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p' | sort -u)
    if [ -n "$missing" ]; then
        text=${text#"$substitute: ${path##*/} needs "}
        if grep -qxF "${text%: cannot open shared object file: No such file or directory}" <<<"$missing"; then
            pass
        else
            fail "$name without ${missing//$'\n'/, }" "$substitute: ${path##*/} needs one of them" "$text"
        fi
    elif [[ $text =~ ^[0-9]+\.[0-9]+\.[0-9]+:\ (.*)$ ]] && [ "${BASH_REMATCH[1]}" = "$(readlink -f "$path")" ]; then
        pass
    else
        fail "the real $name" "its version: $path" "$text"
    fi
}
found cuBLASLt "our own matrix products" libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so.11
found cuDNN "our own convolutions" libcudnn_cnn.so.9 libcudnn_cnn_train.so.8

echo "gpu_startup: $passed passed, $failed failed, $skipped skipped ($PROGRAMS)"
[ "$failed" -eq 0 ]
