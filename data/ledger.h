/* What a program that may be killed at any time has finished, and from what: one JSON line a piece of work, appended
 * when its files are in place. A piece is known by its kind and name; the newest line counts. */
#ifndef DATA_LEDGER_H
#define DATA_LEDGER_H

#include "base/json.h"

#include "base/base.h"

typedef struct Ledger Ledger;

/* Opens or begins the ledger; a last line that was cut off is dropped. It is locked: NULL, with the reason, while
 * another process has it open. */
Ledger *ledger_open(const char *path, Error *error);
void ledger_close(Ledger *ledger);
/* The facts of a finished piece, or NULL. They stay until the same piece is added again. Safe from several threads. */
const json_t *ledger_find(Ledger *ledger, const char *kind, const char *name);
/* Whether nothing is known of any piece. */
bool ledger_is_empty(const Ledger *ledger);
/* Appends; takes over `facts`, a JSON object. Safe from several threads. */
bool ledger_add(Ledger *ledger, const char *kind, const char *name, json_t *facts, Error *error);

/* Fingerprints: SHA-1 in hexadecimal digits, of a text as printf makes it, and of a file ("" if it cannot be read). */
typedef struct {
    char text[41];
} Fingerprint;
Fingerprint fingerprint_of(const char *format, ...) PRINTF_LIKE(1, 2);
Fingerprint fingerprint_file(const char *path);

/* Whether the facts have the text `want` under `key`. */
bool fact_is(const json_t *facts, const char *key, const char *want);

#endif
