/* Names that people type: of classes, sensors, speakers. What looks the same should be the same. */
#pragma once

#include "base/base.h"

/* Returns the name in Unicode's normal form C, with a blank for each no-break space (U+00A0) and without white space at
 * both ends; free(). A name that is not UTF-8 only loses its white space. */
char *label_normal(const char *name);
/* Reports a name that no report can show: of more than 256 bytes, or with a control character. */
bool label_check(const char *name, Error *error);
/* Returns what names have in common that differ in case only ("True", "TRUE"), or are the same whole number ("0",
 * "0.0", "00"); free(). The name is normal. */
char *label_key(const char *name);
/* Returns how two names with one key differ: "are the same number" or "differ in case only". */
const char *label_difference(const char *a, const char *b);
/* Gives each of n names, on the heap, the first spelling among those with the same normal form. Returns the number of
 * names that were replaced. */
int64_t labels_unify(char **const *names, int64_t n);
/* Finds the first of n normal names whose key an earlier one has, which is not the same; false: there is none. */
bool labels_find_alike(const char *const *names, int64_t n, int64_t *earlier, int64_t *later);
/* Warns of two that are alike. where: the file; what: "speakers". */
void labels_warn_alike(const char *where, const char *what, const char *const *names, int64_t n);
