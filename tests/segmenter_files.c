#include "tests/segmenter_files.h"

#include <string.h>

#include "base/base.h"

char *segmenter_vocabulary(const char *const *words, int n, size_t *size) {
    static const unsigned char head[SEGMENTER_WORDS_AT] = {
        0xAC, 0xED, 0,   5,   0x73, 0x72, 0,    0x11, 'j', 'a',  'v',  'a',  '.',  'u',  't',  'i',
        'l',  '.',  'H', 'a', 's',  'h',  'S',  'e',  't', 0xBA, 0x44, 0x85, 0x95, 0x96, 0xB8, 0xB7,
        0x34, 3,    0,   0,   0x78, 0x70, 0x77, 0x0C, 0,   0,    0,    64,   0x3F, 0x40, 0,    0};
    size_t most = sizeof head + 1;
    for (int i = 0; i < n; i++) most += strlen(words[i]) + 3;
    char *file = memcpy(xmalloc(most), head, sizeof head), *at = file + sizeof head;
    file[SEGMENTER_COUNT_AT + 2] = (char)(n >> 8);
    file[SEGMENTER_COUNT_AT + 3] = (char)n;
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(words[i]);
        *at++ = 0x74;
        *at++ = (char)(length >> 8);
        *at++ = (char)length;
        memcpy(at, words[i], length);
        at += length;
    }
    *at = 0x78;
    *size = most;
    return file;
}
