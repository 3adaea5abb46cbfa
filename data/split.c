#include "data/split.h"

#include <openssl/evp.h>
#include <string.h>

bool split_is_validation(const char *id, double ratio) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size;
    if (!EVP_Digest(id, strlen(id), digest, &size, EVP_sha1(), NULL)) die("the library's SHA-1 failed");
    uint64_t remainder = 0;
    for (unsigned int i = 0; i < size; i++) remainder = (remainder * 256 + digest[i]) % 1000000;
    return (double)remainder / 1e6 < ratio;
}

bool split_includes(Split split, const char *id, double ratio) {
    return split == SPLIT_ALL || split_is_validation(id, ratio) == (split == SPLIT_VALIDATION);
}
