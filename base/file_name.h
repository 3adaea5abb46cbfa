/* Names of files for any text, such as the name of a sensor or a class. */
#pragma once

#include <stdbool.h>

/* Returns a file name for any text: a single path component, different for different texts. Slashes, control
 * characters, '%' and a leading '.' or '-' become %XX; a long text is cut and ends with its hash. Release with free().
 */
char *file_name_of(const char *text);
/* Characters of such a name that a file system for Windows (exFAT, NTFS, a network drive) may refuse. */
extern const char file_name_risks[];
/* Returns whether the file system of the folder, or of the first folder above it that exists, refuses a name because of
 * such a character. Tries it. */
bool file_name_is_refused(const char *folder, const char *name);
/* Returns file_name_of(text) for use in a folder, where `before` precedes it in a name. If the file system refuses
 * that, or has the other name already, the risky characters become %XX, too. free() */
char *file_name_in(const char *folder, const char *before, const char *text);
