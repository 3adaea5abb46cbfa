#!/usr/bin/env bash
# Lists the headers of required libraries that are missing here, and prints the command that installs them.
#   tools/check_libraries.sh COMPILER [ARGUMENTS...]
set -eu
cd "$(dirname "$0")/.."
headers="dnnl.h yaml.h jansson.h zip.h zlib.h tiffio.h sndfile.h samplerate.h sentencepiece_processor.h uninorm.h xxhash.h"
command -v "$1" >/dev/null || { echo "The compiler $1 was not found. On Debian and Ubuntu this installs it: tools/install_packages.sh build" >&2; exit 1; }
missing=
for header in $headers; do
    echo "#include <$header>" | "$@" -x c++ -E - >/dev/null 2>&1 || missing+=" $header"
done
[ -z "$missing" ] && exit 0
echo "These library headers are missing:$missing" >&2
echo "On Debian and Ubuntu this installs the libraries:" >&2
echo "  tools/install_packages.sh build" >&2
exit 1
