/* SHA-1: the published examples, and sizes around the ends of blocks. */
#include "data/sha1.h"
#include "tests/test.h"

static void assert_digest(const void *bytes, size_t size, const char *want) {
    char text[SHA1_DIGITS + 1];
    sha1_text(bytes, size, text);
    assert_string_equal(text, want);
}

/* FIPS 180-4, and RFC 3174. */
TEST(published_examples) {
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = xmalloc(1000000);
    assert_digest(NULL, 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_digest("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_digest(two_blocks, 56, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(million, 'a', 1000000);
    assert_digest(million, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(million);
}

/* Python's hashlib: bytes 0, 1, 2, ... of each size from 0 to 199 digested, then the digests. */
TEST(every_size) {
    unsigned char bytes[200], digests[200 * SHA1_SIZE];
    for (int i = 0; i < 200; i++) bytes[i] = (unsigned char)i;
    for (size_t n = 0; n < 200; n++) sha1(bytes, n, digests + n * SHA1_SIZE);
    assert_digest(digests, sizeof digests, "ab05664693b2d32b84dd4616c5284c285cc0684a");
}
