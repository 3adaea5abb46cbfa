#include "base/meeting/hello.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/version.h"

static const char magic[] = "train.c meeting 1";

const char *job_secret(void) {
    const char *secret = getenv("TRAINC_JOB_SECRET");
    return secret ? secret : "";
}

/* Copies a text without line ends, cut if it is too long. */
static void copy(char *to, size_t room, const char *text) {
    for (; *text && --room; text++) *to++ = *text == '\n' ? ' ' : *text;
    *to = 0;
}

Hello hello_own(const Launch *launch) {
    char host[65] = "", revision[128];
    Hello hello = {launch->rank, launch->size, launch->port, getpid(), *job_secret(), "", "", "", ""};
    gethostname(host, sizeof host - 1);
    snprintf(revision, sizeof revision, "%s %s", version_number, version_revision);
    copy(hello.job, sizeof hello.job, launch->job);
    copy(hello.host, sizeof hello.host, host);
    copy(hello.program, sizeof hello.program, program_invocation_short_name);
    copy(hello.revision, sizeof hello.revision, revision);
    return hello;
}

size_t hello_write(const Hello *hello, uint8_t to[HELLO_MOST]) {
    if (syscall(SYS_getrandom, to, NONCE, 0) != NONCE) die("no random numbers: getrandom: %s", strerror(errno));
    int n = snprintf((char *)to + NONCE, HELLO_MOST - NONCE, "%s\n%d\n%d\n%d\n%ld\n%d\n%s\n%s\n%s\n%s\n", magic,
                     hello->rank, hello->size, hello->port, hello->process, hello->has_secret, hello->job, hello->host,
                     hello->program, hello->revision);
    return NONCE + (size_t)n;
}

/* Takes a line of less than `room` bytes from a text. */
static bool take_line(const char **at, char *to, size_t room) {
    size_t n = strcspn(*at, "\n");
    if (n >= room || !(*at)[n]) return false;
    memcpy(to, *at, n);
    to[n] = 0;
    *at += n + 1;
    return true;
}

static bool take_number(const char **at, long most, long *value) {
    char line[16], *end;
    if (!take_line(at, line, sizeof line)) return false;
    *value = strtol(line, &end, 10);
    return end > line && !*end && *value >= 0 && *value <= most;
}

bool hello_read(const uint8_t *bytes, size_t size, Hello *hello) {
    char text[HELLO_MOST], line[sizeof magic];
    const char *at = text;
    long rank, ranks, port, secret;
    if (size <= NONCE || size >= HELLO_MOST) return false;
    memcpy(text, bytes + NONCE, size - NONCE);
    text[size - NONCE] = 0;
    if (!take_line(&at, line, sizeof line) || strcmp(line, magic) != 0 || !take_number(&at, 1 << 20, &rank) ||
        !take_number(&at, 1 << 20, &ranks) || !take_number(&at, 65535, &port) ||
        !take_number(&at, 1 << 30, &hello->process) || !take_number(&at, 1, &secret))
        return false;
    hello->rank = (int)rank;
    hello->size = (int)ranks;
    hello->port = (int)port;
    hello->has_secret = secret;
    return take_line(&at, hello->job, sizeof hello->job) && take_line(&at, hello->host, sizeof hello->host) &&
           take_line(&at, hello->program, sizeof hello->program) &&
           take_line(&at, hello->revision, sizeof hello->revision) && !*at;
}

const char *hello_name(int rank, const char *host, long process, char text[RANK_NAME]) {
    snprintf(text, RANK_NAME, "rank %d (host %s, process %ld)", rank, host, process);
    return text;
}

bool talk_keep(uint8_t to[HELLO_MOST], size_t *to_size, const void *bytes, size_t size) {
    if (size > HELLO_MOST) return false;
    memcpy(to, bytes, size);
    *to_size = size;
    return true;
}

void talk_prove(const Talk *talk, bool rank_0, uint8_t proof[SHA1_SIZE]) {
    const char *role = rank_0 ? "receives" : "comes";
    const uint8_t length[2] = {(uint8_t)(talk->greeting_size >> 8), (uint8_t)talk->greeting_size};
    uint8_t text[16 + 2 * HELLO_MOST];
    size_t n = strlen(role) + 1;
    memcpy(text, role, n);
    memcpy(text + n, length, sizeof length);
    n += sizeof length;
    memcpy(text + n, talk->greeting, talk->greeting_size);
    n += talk->greeting_size;
    memcpy(text + n, talk->challenge, talk->challenge_size);
    n += talk->challenge_size;
    sha1_hmac(job_secret(), strlen(job_secret()), text, n, proof);
}

bool talk_is_proof(const Talk *talk, bool rank_0, const uint8_t *proof, size_t size) {
    uint8_t want[SHA1_SIZE], differences = 0;
    talk_prove(talk, rank_0, want);
    if (size != SHA1_SIZE) return false;
    for (int i = 0; i < SHA1_SIZE; i++) differences |= proof[i] ^ want[i];
    return !differences;
}
