/* A record of finished work, for programs that may be killed at any time: one JSON line per piece of work, appended
 * when the files of the piece are complete. Kind and name identify a piece; its newest line counts. */
#pragma once

#include "base/json.h"

#include "base/base.h"
#include "base/sha1.h"

typedef struct Ledger Ledger;

/* Opens the ledger, or creates it, and locks it. Drops a truncated last line. Returns NULL with the reason, also if
 * another process has the ledger open. */
Ledger *ledger_open(const char *path, Error *error);
void ledger_close(Ledger *ledger);
/* Returns the facts of a finished piece, or NULL. The pointer is valid until the same piece is added again. Safe from
 * several threads. */
const json_t *ledger_find(Ledger *ledger, const char *kind, const char *name);
/* Returns whether no piece is recorded. */
bool ledger_is_empty(const Ledger *ledger);
/* Appends a piece, and takes ownership of `facts`, a JSON object. Safe from several threads. */
bool ledger_add(Ledger *ledger, const char *kind, const char *name, json_t *facts, Error *error);

/* SHA-1 in hexadecimal digits: of a text formatted like printf, or of a file ("" if the file cannot be read). */
typedef struct {
    char text[SHA1_DIGITS + 1];
} Fingerprint;
Fingerprint fingerprint_of(const char *format, ...) PRINTF_LIKE(1, 2);
Fingerprint fingerprint_file(const char *path);

/* Returns whether the facts have the text `want` under `key`. */
bool fact_is(const json_t *facts, const char *key, const char *want);
