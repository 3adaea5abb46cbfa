#!/usr/bin/env bash
# Installs missing packages of the distribution (Debian, Ubuntu), by group:
#   tools/install_packages.sh build test
# Asks dpkg first: if nothing is missing, it needs no network and no time. If it cannot install packages, it prints the
# command that does, and fails. NO_INSTALL=1 skips everything, for users who have the libraries from elsewhere.
set -eu

# a|b: any of the alternatives will do; the first one that the distribution has is installed.
declare -A groups=(
    [build]="gcc g++ make pkg-config|pkgconf libdnnl-dev libyaml-dev libjansson-dev libzip-dev zlib1g-dev libtiff-dev libsndfile1-dev
             libsamplerate0-dev libsentencepiece-dev libunistring-dev libxxhash-dev"
    [test]="libcmocka-dev"
    [pip]="python3-pip"
    [release]="cmake patch bzip2 xz-utils libflac-dev libvorbis-dev libopus-dev libogg-dev libzstd-dev liblzma-dev python3-pip"
    [demo]="espeak-ng"
    [demo-slm]="bible-kjv xz-utils"
    [lint]="clang-format clang-tidy cppcheck shellcheck"
    [root]="mmdebstrap debian-archive-keyring"
    [mpi]="libopenmpi-dev|libmpich-dev openmpi-bin|mpich"
    [network]="iproute2"
    [kit]="xz-utils"
    [fuzz]="clang libclang-rt-dev|libclang-rt-14-dev|libclang-common-14-dev"
)

fail() {
    printf '%s\n' "$@" "If you have them from elsewhere: NO_INSTALL=1 make ..." >&2
    exit 1
}

# Prints the wanted packages ("a|b") that have no alternative installed.
find_missing() {
    local installed want
    # shellcheck disable=SC2086
    installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' ${wanted//|/ } 2>/dev/null || true)"
    for want in $wanted; do
        local found=no name
        for name in ${want//|/ }; do
            case $installed in *" installed=$name "*) found=yes ;; esac
        done
        [ $found = yes ] || printf '%s ' "$want"
    done
}

# Prints for each package the first alternative that apt knows, or else the first.
choose() {
    local want name
    for want in $1; do
        local chosen=${want%%|*}
        for name in ${want//|/ }; do
            if apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [^(]'; then
                chosen=$name
                break
            fi
        done
        printf '%s ' "$chosen"
    done
}

# Sets `root` to the command that runs others as root: empty for root, else sudo, which may ask for a password at a
# terminal. Fails if sudo is missing or not allowed.
find_root() {
    [ "$(id -u)" -eq 0 ] && return 0
    root=sudo
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo true; }
}

[ "${NO_INSTALL:-}" = 1 ] && exit 0
wanted=
for group in "$@"; do
    [ -n "${groups[$group]:-}" ] || { echo "$0: unknown group '$group'; expected one of: ${!groups[*]}" >&2; exit 2; }
    wanted+=" ${groups[$group]}"
done
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2086
    list=$(printf '  %s\n' $wanted)
    fail "This system has no apt. Install these packages (Debian names), then run make with NO_INSTALL=1:" \
        "${list//|/ or }"
fi
missing=$(find_missing)
[ -z "$missing" ] && exit 0

root=
if ! find_root; then
    fail "Packages are missing, and sudo is missing or not allowed here. Install them as root:" \
        "  sudo apt-get update && sudo apt-get install -y $(choose "$missing")"
fi
echo "installing: $missing"
options=(-qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
$root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update ||
    echo "apt-get update failed; continuing with the old package lists" >&2
packages=$(choose "$missing")
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends $packages >/dev/null ||
    fail "apt-get could not install the packages; see its message above. To try by hand:" \
        "  sudo apt-get update && sudo apt-get install -y $packages"
