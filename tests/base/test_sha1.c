/* SHA-1 and its HMAC: the published examples, and sizes around the ends of blocks. */
#include "base/sha1.h"
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

static void assert_code(const void *key, size_t key_size, const void *text, size_t size, const char *want) {
    uint8_t code[SHA1_SIZE];
    char hex[SHA1_DIGITS + 1] = "";
    sha1_hmac(key, key_size, text, size, code);
    for (int i = 0; i < SHA1_SIZE; i++) sprintf(hex + 2 * i, "%02x", code[i]);
    assert_string_equal(hex, want);
}

/* RFC 2202, section 3. */
TEST(published_codes) {
    static const char block_key[] = "Test Using Larger Than Block-Size Key - Hash Key First",
                      more[] = "Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data";
    uint8_t bs[20], aas[80], dds[50], cds[50], cs[20], counted[25];
    memset(bs, 0x0b, sizeof bs);
    memset(aas, 0xaa, sizeof aas);
    memset(dds, 0xdd, sizeof dds);
    memset(cds, 0xcd, sizeof cds);
    memset(cs, 0x0c, sizeof cs);
    for (int i = 0; i < 25; i++) counted[i] = (uint8_t)(i + 1);
    assert_code(bs, 20, "Hi There", 8, "b617318655057264e28bc0b6fb378c8ef146be00");
    assert_code("Jefe", 4, "what do ya want for nothing?", 28, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    assert_code(aas, 20, dds, 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3");
    assert_code(counted, 25, cds, 50, "4c9007f4026250c6bc8414f9bf50c86c2d7235da");
    assert_code(cs, 20, "Test With Truncation", 20, "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04");
    assert_code(aas, 80, block_key, sizeof block_key - 1, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
    assert_code(aas, 80, more, sizeof more - 1, "e8e99d0f45237d786d6bbaa7965c7808bbff1a91");
}
