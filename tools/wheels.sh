# shellcheck shell=bash
# What the scripts that install NVIDIA's packages for Python share. They define `download`, which fills a directory.

# Installs pip if it is missing.
require_pip() { python3 -m pip --version || "$(dirname "${BASH_SOURCE[0]}")/install_packages.sh" pip; }

# unpack_wheels FOLDER ARGUMENT...: downloads the packages that the arguments of pip name, and unpacks them into a new folder.
unpack_wheels() {
    local folder=$1 wheel
    shift
    require_pip && rm -rf "$folder" && mkdir -p "$folder" || return 1
    python3 -m pip download --no-deps --dest "$folder" "$@" || return 1
    for wheel in "$folder"/*.whl; do python3 -m zipfile -e "$wheel" "$folder" && rm "$wheel" || return 1; done
}

# download_or_say DIRECTORY WHAT: downloads, with a log beside the directory. If that fails, or with NO_INSTALL=1, prints one
# line that says that WHAT is skipped, and why.
download_or_say() {
    local problem="NO_INSTALL=1"
    mkdir -p "$(dirname "$1")"
    if [ "${NO_INSTALL:-}" != 1 ]; then
        problem="NVIDIA has none for $(uname -m)"
        if [ "$(uname -m)" = x86_64 ]; then
            download >"$1.log" 2>&1 && return
            problem="the download failed: $1.log"
        fi
    fi
    rm -rf "$1.new" "$1/version"
    echo "SKIPPED: $2: $problem"
}
