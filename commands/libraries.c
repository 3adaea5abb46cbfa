/* Lists the linked libraries with their licences, which bind whoever distributes the program. The symbols are weak, so
 * that asking for a version does not link in a library that the program never calls. */
#include "commands/libraries.h"

#include <dnnl.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>
#include <unistring/version.h>
#include <xxhash.h>
#include <yaml.h>
#include <zip.h>
#include <zlib.h>

#include "kernels/mpi.h"

#pragma weak dnnl_version
#pragma weak yaml_get_version_string
#pragma weak jansson_version_str
#pragma weak zip_libzip_version
#pragma weak zlibVersion
#pragma weak TIFFGetVersion
#pragma weak sf_version_string
#pragma weak src_get_version
#pragma weak _libunistring_version

/* The lists that tools/release/licenses.sh has written, in a release: its libraries cannot be asked, since an archive
 * may hold the version of a library apart from what the program calls. */
extern const char libraries_text[] __attribute__((weak));
extern const char licenses_text[] __attribute__((weak));

/* Returns "1.2.0" of "libsndfile-1.2.0". */
static const char *number_in(const char *text) { return text + strcspn(text, "0123456789"); }

static void print_library(const char *name, const char *version, const char *licence) {
    int length = (int)strspn(version, "0123456789.");
    printf("  %-24s %-*.*s %s\n", name, 20, length, version, licence);
}

static void print_mpi(const char *library) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(library, "0123456789"), library);
    print_library(name, number_in(library),
                  !strncmp(name, "Open MPI", 8) ? "BSD-3-Clause"
                  : !strncmp(name, "MPICH", 5)  ? "mpich2"
                                                : "its own");
}

void libraries_print(void) {
    char text[32];
    printf("linked with:\n");
    if (libraries_text) {
        printf("%s", libraries_text);
        print_library("GNU C library, shared", gnu_get_libc_version(), "LGPL-2.1-or-later");
        return;
    }
    if (dnnl_version) {
        const dnnl_version_t *v = dnnl_version();
        snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
        print_library("oneDNN", text, "Apache-2.0");
    }
    if (yaml_get_version_string) print_library("libyaml", yaml_get_version_string(), "MIT");
    if (jansson_version_str) print_library("jansson", jansson_version_str(), "MIT");
    if (zip_libzip_version) print_library("libzip", zip_libzip_version(), "BSD-3-Clause");
    if (zlibVersion) print_library("zlib", zlibVersion(), "Zlib");
    if (TIFFGetVersion) print_library("libtiff", number_in(TIFFGetVersion()), "libtiff");
    if (sf_version_string) print_library("libsndfile", number_in(sf_version_string()), "LGPL-2.1-or-later");
    if (src_get_version) print_library("libsamplerate", number_in(src_get_version()), "BSD-2-Clause");
    print_library("SentencePiece", SENTENCEPIECE_VERSION, "Apache-2.0");
    if (&_libunistring_version) {
        snprintf(text, sizeof text, "%d.%d.%d", _libunistring_version >> 16, _libunistring_version >> 8 & 255,
                 _libunistring_version & 255);
        print_library("libunistring", text, "LGPL-3.0-or-later or GPL-2.0-or-later");
    }
    const char *mpi = mpi_library();
    if (mpi) print_mpi(mpi);
    snprintf(text, sizeof text, "%d.%d.%d", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
    print_library("xxHash", text, "BSD-2-Clause");
    print_library("GCC's libgomp, libstdc++", __VERSION__, "GPL-3.0-or-later with the runtime library exception");
    print_library("GNU C library", gnu_get_libc_version(), "LGPL-2.1-or-later");
}

void licenses_print(void) {
    if (licenses_text) {
        fputs(licenses_text, stdout);
        return;
    }
    libraries_print();
    printf(
        "These libraries are not in the program: it loads those of this system, whose packages have the texts of their "
        "licences\n(Debian: /usr/share/doc/PACKAGE/copyright).\n");
}
