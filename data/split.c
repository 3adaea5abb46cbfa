#include "data/split.h"

#include <string.h>

#include "base/sha1.h"

bool split_is_validation(const char *id, double ratio) {
    unsigned char digest[SHA1_SIZE];
    sha1(id, strlen(id), digest);
    uint64_t remainder = 0;
    for (int i = 0; i < SHA1_SIZE; i++) remainder = (remainder * 256 + digest[i]) % 1000000;
    return (double)remainder / 1e6 < ratio;
}

bool split_includes(Split split, const char *id, double ratio) {
    return split == SPLIT_ALL || split_is_validation(id, ratio) == (split == SPLIT_VALIDATION);
}
