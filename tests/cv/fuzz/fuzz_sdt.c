/* Reads any bytes as an .sdt file, and a valid file with changes; the first byte chooses. */
#include "data/cv/sdt.h"
#include "tests/cv/fuzz/fuzz_image.h"

/* A zip archive with one file of 48 zeros. */
static const unsigned char archive[] =
    "PK\3\4\24\0\0\0\10\0\0\0!\0\225\263\210\362\6\0\0\0000\0\0\0\12\0\0\0data_blockc` \15\0\0PK\1\2\24\3"
    "\24\0\0\0\10\0\0\0!\0\225\263\210\362\6\0\0\0000\0\0\0\12\0\0\0\0\0\0\0\0\0\0\0\200\1\0\0\0\0data_bl"
    "ockPK\5\6\0\0\0\0\1\0\1\08\0\0\0.\0\0\0\0\0";
enum { DESCRIPTION = 42, BLOCK = DESCRIPTION + 320, DATA = BLOCK + 22, SIZE = DATA + 256 };

static void set(char *file, int at, uint32_t value) { memcpy(file + at, &value, sizeof value); }

/* Makes an image of 2 x 3 pixels and 4 bins, zipped or not. */
static void make(char file[SIZE], bool zipped) {
    memset(file, 0, SIZE);
    set(file, 0, 15);
    set(file, 14, BLOCK);
    set(file, 18, 1);
    set(file, 24, DESCRIPTION);
    set(file, 28, 1 | 320 << 16);
    set(file, 32, 0x5555);
    set(file, DESCRIPTION + 82, 4);
    set(file, DESCRIPTION + 173, 3);
    set(file, DESCRIPTION + 177, 2);
    set(file, BLOCK + 2, DATA);
    set(file, BLOCK + 10, zipped ? 0x1011 : 0x11);
    set(file, BLOCK + 18, 48);
    if (zipped) memcpy(file + DATA, archive, sizeof archive - 1);
    if (zipped) set(file, BLOCK + 6, DATA + sizeof archive - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char good[SIZE];
    size_t n;
    make(good, size && data[0] & 4);
    char *bytes = fuzz_chosen(good, SIZE, data, size, &n);
    fuzz_image(sdt_read, bytes, n);
    free(bytes);
    return 0;
}
