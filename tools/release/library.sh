#!/usr/bin/env bash
# Builds a library of libraries.txt as an archive, and installs it below a directory:
#   tools/release/library.sh DIRECTORY NAME
# Fetches the source package with apt into DIRECTORY/sources, without root and without a change to apt's own settings. The
# build is the same in each directory, to the bit.
set -eu
prefix=$(realpath -m "$1")
name=$2
here=$(dirname "$(realpath "$0")")
work=$prefix/work/$name
source=$work/source
read -r package suite hash _ < <(sed -n "s/^$name  *//p" "$here/libraries.txt")

fail() {
    printf 'building %s: %s\n' "$name" "$1" >&2
    exit 1
}

# Runs apt-get with lists of source packages of its own, one set per suite.
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists" \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User= "$@"
}

# Downloads the upstream source and Debian's changes to it, if they are not there yet, and sets `original` and `debian`.
fetch() {
    local apt=$prefix/sources/$suite mirror uri file check
    original='' debian=''
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    (
        flock 9
        [ -s "$apt/updated" ] && exit 0
        mirror=$(apt-get indextargets --format "\$(SITE) \$(RELEASE)" "Created-By: Packages" "Label: Debian" | sed -n 's/ bookworm$//p' | head -n 1)
        [ -n "$mirror" ] || fail "apt knows no packages of Debian 12 (bookworm), which the release is built on"
        echo "deb-src $mirror $suite main" >"$apt/sources.list"
        apt update && date >"$apt/updated"
    ) 9>"$apt/lock" || fail "apt could not read the list of source packages of $suite"
    while read -r uri file _ check; do
        case $file in
            *.asc) continue ;;
            *.orig.tar.*) original=$prefix/sources/$file check=SHA256:$hash ;;
            *.debian.tar.*) debian=$prefix/sources/$file ;;
            *) continue ;;
        esac
        [ -e "$prefix/sources/$file" ] || /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User= download-file "${uri//\'/}" \
            "$prefix/sources/$file" "$check" >&2 || fail "the download of $file failed"
    done < <(apt source --print-uris "$package/$suite")
    if [ -z "$original" ] || [ -z "$debian" ]; then fail "apt knows no source package $package of $suite"; fi
    echo "$hash  $original" | sha256sum --check --quiet || fail "the hash of $original is not that of libraries.txt"
}

# Unpacks the source with Debian's patches but for those of its own way of building.
unpack() {
    local patch
    rm -rf "$work" && mkdir -p "$source"
    tar -xf "$original" -C "$source" --strip-components=1
    tar -xf "$debian" -C "$source"
    [ -e "$source/debian/patches/series" ] || return 0
    while read -r patch; do
        case $patch in "" | "#"* | disable-* | system-*) continue ;; esac
        patch -d "$source" -p1 -s -f <"$source/debian/patches/$patch" >/dev/null || fail "Debian's patch $patch does not fit"
    done < <(cut -d ' ' -f 1 "$source/debian/patches/series")
}

# Removes what computes neither products of matrices nor convolutions, of f32, on a CPU: two thirds of oneDNN. Its lists of
# implementations lose what they name; a function that is missed after all is an error of the linker.
trim_onednn() {
    cd "$source/src/cpu"
    sed -i -E '/^        \{\{(forward|backward_data|backward_weights), f32, f32, f32\}/b
        /^        \{\{(forward|backward)/,/^        \}/d
        /^        BRGEMM_FP8|CPU_INSTANCE_X64\(ip_convolution/d' cpu_convolution_list.cpp
    sed -i -E '/^            \{\{/{/f32, f32, 0/!d}' reorder/cpu_reorder.cpp
    sed -i -E '/brgemm_matmul_copy_reorder_t|rnn_weights_reorder_t/d' reorder/cpu_reorder_regular_f32_f32.cpp
    find . -name '*.cpp' | grep -v -E \
        -e '_list.cpp|injector|postops|/cpu_(sum|concat|reorder(_regular_f32_f32)?).cpp' \
        -e 'core_(gemv_s8x8s32|amx_conv_kernel)' | grep -E \
        -e '/(rnn|lrn|prelu|shuffle|matmul|amx|capi|s8x8s32|bf16|reorder/cpu_reorder_[a-z0-9_]*)[/.]' \
        -e 'normalization|pool|softmax|resampling|reduction|eltwise|binary|inner_product|deconv|lrn|prelu|shuffle|sum|concat' \
        -e 'x8s8s32x|int8|core_amx|core_bf16|gemm_bf16|sparse|ip_convolution' | xargs rm
}

flags="-fPIE -ffunction-sections -fdata-sections -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
       -ffile-prefix-map=$work=$name"
with_cmake() {
    local folder=$1
    shift
    cmake -S "$source/$folder" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="${flags//$'\n'/ }" -DCMAKE_CXX_FLAGS="${flags//$'\n'/ }" -DBUILD_SHARED_LIBS=OFF "$@"
    cmake --build "$work/build" -j "$(nproc)"
    cmake --install "$work/build"
}

build() {
    case $name in
        oneDNN) # matrix products and convolutions of f32 on a CPU, whose inner loops it compiles itself at run time: -O1 is enough
            trim_onednn
            with_cmake . -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DONEDNN_LIBRARY_TYPE=STATIC -DONEDNN_CPU_RUNTIME=OMP -DONEDNN_GPU_RUNTIME=NONE -DONEDNN_BUILD_DOC=OFF \
                -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_ENABLE_WORKLOAD=TRAINING \
                -DONEDNN_ENABLE_PRIMITIVE="CONVOLUTION;REORDER" -DONEDNN_ENABLE_PRIMITIVE_CPU_ISA=AVX512 \
                -DONEDNN_ENABLE_GEMM_KERNELS_ISA=AVX512 -DONEDNN_ENABLE_ITT_TASKS=OFF -DONEDNN_ENABLE_JIT_PROFILING=OFF
            ;;
        libzip) # stored and deflated files
            with_cmake . -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF -DENABLE_OPENSSL=OFF -DENABLE_BZIP2=OFF \
                -DENABLE_LZMA=OFF -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
            ;;
        libtiff) # without JBIG, whose library is GPL, and without lossy methods
            with_cmake . -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF -Djbig=OFF -Djpeg=OFF -Dold-jpeg=OFF \
                -Dlerc=OFF -Dwebp=OFF -Dlibdeflate=OFF -Dcxx=OFF
            ;;
        mpg123) with_cmake ports/cmake -DBUILD_LIBOUT123=OFF -DBUILD_PROGRAMS=OFF ;;
        LAME)
            cd "$source"
            ./configure --prefix="$prefix" --disable-shared --enable-static --disable-frontend --disable-decoder CFLAGS="-O3 ${flags//$'\n'/ }"
            make -j "$(nproc)" install
            ;;
        libsndfile)
            with_cmake . -DBUILD_PROGRAMS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF -DENABLE_CPACK=OFF -DCMAKE_POLICY_DEFAULT_CMP0063=NEW
            [ "$(grep -c -E 'define HAVE_(EXTERNAL_XIPH_LIBS|MPEG) 1' "$work/build/src/config.h")" -eq 2 ] ||
                fail "the libraries of FLAC, Ogg, Vorbis, Opus or MP3 were not found"
            ;;
        libsamplerate) with_cmake . -DBUILD_TESTING=OFF -DLIBSAMPLERATE_EXAMPLES=OFF -DLIBSAMPLERATE_INSTALL=ON ;;
        SentencePiece) with_cmake . -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF ;;
    esac
}

unset CC CXX CFLAGS CXXFLAGS LDFLAGS MAKEFLAGS
export LC_ALL=C SOURCE_DATE_EPOCH=0 ZERO_AR_DATE=1 GIT_CEILING_DIRECTORIES=$prefix/work
mkdir -p "$work"
fetch
unpack
build >"$work.log" 2>&1 & # in the background, where its first error ends it
while kill -0 $! 2>/dev/null; do # says each minute how far it is
    sleep 1
    [ $((SECONDS % 60)) -ne 0 ] || echo "$name: $SECONDS s, $(grep -o '^\[ *[0-9]*%' "$work.log" | tail -n 1 | tr -d '[ ')"
done
wait $! || fail "see $work.log"
echo "$name: built in $SECONDS s"
mkdir -p "$prefix/licenses"
cp "$source/debian/copyright" "$prefix/licenses/$name"
version=${debian##*/*_}
echo "${version%.debian.tar.*}" >"$prefix/licenses/$name.version"
rm -rf "$work"
