#!/usr/bin/env bash
# Installs what is missing of the distribution's packages (Debian, Ubuntu), by group:
#   tools/install_packages.sh build test
# Asks dpkg first, so that it neither needs the network nor takes time when all is there. Without the means to install it
# prints the command that does, and fails. NO_INSTALL=1 skips it all, for those who have the libraries by other means.
set -eu

# a|b: the first that the distribution has; any of them will do.
declare -A groups=(
    [build]="gcc g++ make pkg-config|pkgconf libdnnl-dev libyaml-dev libjansson-dev libzip-dev libsndfile1-dev
             libsamplerate0-dev libfftw3-dev libsentencepiece-dev libunistring-dev libssl-dev libxxhash-dev"
    [test]="libcmocka-dev"
    [pip]="python3-pip"
    [demo]="espeak-ng"
    [lint]="clang-format clang-tidy cppcheck shellcheck"
    [fuzz]="clang libclang-rt-dev|libclang-rt-14-dev|libclang-common-14-dev"
)

fail() {
    printf '%s\n' "$@" "If you have them by other means: NO_INSTALL=1 make ..." >&2
    exit 1
}

# Those of the wanted packages ("a|b") of which no alternative is installed.
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

# The first alternative of each that apt knows, or just the first.
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

# How to become root: nothing as root, sudo where it works (it may ask for a password at a terminal).
find_root() {
    [ "$(id -u)" -eq 0 ] && return 0
    root=sudo
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo true; }
}

[ "${NO_INSTALL:-}" = 1 ] && exit 0
wanted=
for group in "$@"; do
    [ -n "${groups[$group]:-}" ] || { echo "$0: no group '$group'; there are: ${!groups[*]}" >&2; exit 2; }
    wanted+=" ${groups[$group]}"
done
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2086
    list=$(printf '  %s\n' $wanted)
    fail "This system has no apt. Install these (names as in Debian), then make again with NO_INSTALL=1:" \
        "${list//|/ or }"
fi
missing=$(find_missing)
[ -z "$missing" ] && exit 0

root=
if ! find_root; then
    fail "These packages are missing, and there is no way to become root here (no sudo, or not allowed). Install them with" \
        "  sudo apt-get update && sudo apt-get install -y $(choose "$missing")"
fi
echo "installing: $missing"
options=(-qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
$root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update ||
    echo "apt-get update failed; going on with the package lists that are there" >&2
packages=$(choose "$missing")
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends $packages >/dev/null ||
    fail "apt-get could not install them (its reason stands above). By hand:" \
        "  sudo apt-get update && sudo apt-get install -y $packages"
