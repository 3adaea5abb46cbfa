/* The words of ranks that meet: who one is, and the proof that one knows the secret of the job.
 *
 * Rank R to rank 0:  'H' nonce, hello           'P' proof of R over both
 * Rank 0 to rank R:  'C' nonce, hello           'A' proof of rank 0 over both
 *                or  'R' why not, and whether to look elsewhere
 * The proof is the HMAC-SHA1, with TRAINC_JOB_SECRET as key, of the role and of what 'H' and 'C' held. */
#pragma once

#include "base/launch.h"
#include "base/meeting/wire.h"
#include "base/sha1.h"

enum { NONCE = 16, HELLO_MOST = 1024 };

/* The facts that a rank states about itself when it comes. */
typedef struct {
    int rank, size, port; /* MASTER_PORT; 0: not told */
    long process;
    bool has_secret;
    char job[128], host[65], program[64], revision[64];
} Hello;

Hello hello_own(const Launch *launch);
/* Writes a fresh nonce and the hello. Returns the bytes. */
size_t hello_write(const Hello *hello, uint8_t to[HELLO_MOST]);
/* Reads them; false if they are none. */
bool hello_read(const uint8_t *bytes, size_t size, Hello *hello);
/* Writes "rank 2 (host h, process 4711)". Returns text. */
enum { RANK_NAME = 128 };
const char *hello_name(int rank, const char *host, long process, char text[RANK_NAME]);

/* The bytes that a proof is about. */
typedef struct {
    uint8_t greeting[HELLO_MOST], challenge[HELLO_MOST];
    size_t greeting_size, challenge_size;
} Talk;
/* Keeps what was sent or received; false if it is too long. */
bool talk_keep(uint8_t to[HELLO_MOST], size_t *to_size, const void *bytes, size_t size);
void talk_prove(const Talk *talk, bool rank_0, uint8_t proof[SHA1_SIZE]);
/* Compares in a time that does not depend on the bytes. */
bool talk_is_proof(const Talk *talk, bool rank_0, const uint8_t *proof, size_t size);
/* Returns TRAINC_JOB_SECRET, "" if it is not set. */
const char *job_secret(void);

/* A rank that has come, as another one knows it. */
typedef struct {
    Wire wire;   /* ranks other than 0 have only that of rank 0 */
    Hello hello; /* these know only host and process of each other */
} Member;

/* The types of frames after the proofs: the names of all, why there is no meeting, a sign of life. */
enum { FRAME_START = 'S', FRAME_FAIL = 'F', FRAME_ALIVE = 'B' };
/* Returns how often a sign of life is due, in seconds. */
static inline double alive_every(double silence) { return silence < 4 ? silence / 4 : 1; }
