#include "tests/cv/golden.h"

double cv_golden_uniform(uint64_t j, uint64_t k) {
    uint64_t z = (j << 32) + k + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-52 - 1;
}

int cv_golden_count(int n, int t, int y, int x) {
    if ((y - 10) * (y - 10) + (x - 10) * (x - 10) > (4 + 2 * n) * (4 + 2 * n)) return 0;
    return (t < 50 ? 0 : (20 + 10 * n) * (255 - t) * (255 - t) / 42025) + ((7 * y + 13 * x + 3 * t + 5 * n) % 5 == 0);
}
