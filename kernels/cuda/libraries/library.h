/* Loads NVIDIA's libraries at run time: programs are not linked with them and work without them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

enum { LIBRARY_DESCRIPTION = 384, LIBRARY_FILE = 256, LIBRARY_VERSION = 32 };

/* Describes a library and what computes without it. Lists end with NULL. */
typedef struct {
    const char *variable;         /* environment variable with the file's path, or "none": "TRAINC_CUDNN" */
    const char *const *files;     /* names of the file; the first one found is loaded */
    const char *title;            /* "cuDNN (libcudnn_cnn.so.9)" */
    const char *substitute;       /* "our own convolutions" */
    const char *advice;           /* what to install, and why; NULL: the library is a part of the driver */
    int (*newest)(void);          /* returns the newest major version that can be used; NULL: any */
    const char *const *functions; /* names */
} LibrarySpec;

/* Loads the library until the program ends, and writes the pointers to its functions to `call`, a structure of them in
 * the order of spec->functions. Returns true with the file's path in `description`, or false with the reason. A library
 * is looked for where the system looks, then one that is no part of the driver in the folders of CUDA toolkits and of
 * NVIDIA's packages for Python, one of the driver as by library_open_driver. */
bool library_load(const LibrarySpec *spec, void *call, char description[LIBRARY_DESCRIPTION]);

/* Warns that the library was not found, and says what to install, unless the user has chosen a file or to do without.
 */
void library_advise(const LibrarySpec *spec, const char *description);

/* Loads a file, without its functions. Returns NULL with the reason in `problem`: "" if there is no such file. */
void *library_open(const char *file, char problem[LIBRARY_FILE]);
/* The same for a library of the driver, which is looked for where containers mount the driver, too. Once it is loaded,
 * who asks for its name gets it: the CUDA runtime looks only where the system does. */
void *library_open_driver(const char *file, char problem[LIBRARY_FILE]);
/* Writes the path of a loaded library, links resolved. */
void library_path(void *library, char path[LIBRARY_FILE]);

/* Returns what follows the first line of a text of choices, which must be the name of what chose here; NULL with the
 * reason if it is another. */
const char *library_choices(const char *text, const char *here, Error *error);

/* Formats a version number as cuBLAS and cuDNN return it: 111103 is "11.11.3", 8907 "8.9.7". Returns text. */
const char *library_version(size_t version, char text[LIBRARY_VERSION]);
/* Writes "13.1.0: PATH" for the path that library_load has written. */
void library_describe(size_t version, char description[LIBRARY_DESCRIPTION]);
