#!/usr/bin/env bash
# Makes a folder with a minimal Debian system, for tests of builds and of released programs, by root:
#   tools/make_root.sh bullseye|bookworm|trixie DIRECTORY
# A folder that is there is complete, and is kept. The packages come from where this machine's apt gets its own. Commands
# run in the new system by tools/in_root.sh.
set -eu
suite=${1-} directory=${2-}
case $suite in bullseye | bookworm | trixie) ;; *) directory= ;; esac
[ -n "$directory" ] || { echo "expected: make_root.sh bullseye|bookworm|trixie DIRECTORY; found: $*" >&2; exit 2; }
[ ! -d "$directory" ] || exit 0
[ "$(id -u)" -eq 0 ] || { echo "make_root: only root can make a system with the files of root: use sudo" >&2; exit 1; }
"$(dirname "$0")/install_packages.sh" root
# shellcheck disable=SC2016 # apt expands $(SITE)
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | sort -u | head -n 1)
[ -n "$mirror" ] || { echo "make_root: this machine's apt has no archive of Debian, as 'deb URL bookworm main'" >&2; exit 1; }

# One file system: what a process has mounted in an interrupted system is left alone.
new=$directory.new
rm -rf --one-file-system "$new"
mkdir -p "$(dirname "$directory")"
if ! mmdebstrap --quiet --variant=minbase "$suite" "$new" "deb $mirror $suite main" >"$directory.log" 2>&1; then
    cat "$directory.log" >&2
    echo "make_root: no system was made. If Release or Packages was not found above: this archive no longer has $suite, which" \
        "Debian moves to the archive of its old releases some years after its end" >&2
    exit 1
fi
rm "$directory.log"
mv "$new" "$directory"
