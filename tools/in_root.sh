#!/usr/bin/env bash
# Runs a command in a system of tools/make_root.sh, as root, in its folder / and with nothing of this system's environment:
#   tools/in_root.sh DIRECTORY COMMAND [ARGUMENT...]
# What is mounted is mounted only for the command, and all its processes end with it: the folder can be removed afterwards.
set -eu
[ $# -ge 2 ] || { echo "expected: in_root.sh DIRECTORY COMMAND; found: $*" >&2; exit 2; }
[ -x "$1/bin/sh" ] || { echo "in_root: there is no system in $1: tools/make_root.sh makes one" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "in_root: only root can run commands in another system: use sudo" >&2; exit 1; }
# shellcheck disable=SC2016 # the inner shell expands them
exec unshare --mount --pid --fork --kill-child sh -c '
    mount -t proc proc "$0/proc" && exec env -i DEBIAN_FRONTEND=noninteractive HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" "$@"' "$@"
