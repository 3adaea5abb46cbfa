/* The characters of bytes and their inverse, as two tables. */
#include "data/text/byte_alphabet.h"

#include "data/text/characters.h"

enum { CHARACTERS = 0x144 };
static char texts[256][3];
static int16_t bytes_of[CHARACTERS]; /* -1: stands for no byte */

static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

static void make_alphabet(void) {
    unsigned next = 0x100;
    for (int i = 0; i < CHARACTERS; i++) bytes_of[i] = -1;
    for (unsigned byte = 0; byte < 256; byte++) {
        const unsigned c = is_printable(byte) ? byte : next++;
        bytes_of[c] = (int16_t)byte;
        if (c < 0x80)
            texts[byte][0] = (char)c;
        else
            texts[byte][0] = (char)(0xC0 | c >> 6), texts[byte][1] = (char)(0x80 | (c & 63));
    }
}

static void make_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_alphabet);
}

const char *byte_alphabet(unsigned char byte) {
    make_once();
    return texts[byte];
}

int64_t byte_alphabet_decode(const char *piece, size_t size, char *bytes) {
    int64_t n = 0;
    uint32_t c;
    make_once();
    for (const char *at = piece, *end = piece + size; at < end;) {
        at += character_at(at, end, &c);
        if (c >= CHARACTERS || bytes_of[c] < 0) return -1;
        bytes[n++] = (char)bytes_of[c];
    }
    return n;
}
