/* An .npy file has magic bytes, a version, the length of the header, the header (a Python dictionary literal with three
 * keys, padded with spaces) and the numbers.
 *
 * The header is untrusted: sizes must not overflow, and the file must have exactly the bytes that its shape needs. */
#include "data/formats/npy.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/formats/foreign.h"

/* A cursor over the header's text. */
typedef struct {
    const char *at, *end;
} Text;

static void skip_space(Text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t')) t->at++;
}

static bool accept(Text *t, const char *word) {
    size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n)) return false;
    t->at += n;
    return true;
}

/* Reads 'text' or "text" of printable ASCII into out. */
static bool parse_quoted(Text *t, char *out, size_t size) {
    skip_space(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"')) return false;
    char quote = *t->at++;
    const char *close = memchr(t->at, quote, (size_t)(t->end - t->at));
    if (!close || (size_t)(close - t->at) >= size) return false;
    for (; t->at < close; *out++ = *t->at++)
        if (*t->at < ' ' || *t->at > '~') return false;
    *out = 0;
    t->at++;
    return true;
}

/* Reads a byte order, a kind and a size of one digit: "<f4". */
static bool parse_descr(Text *t, Npy *npy, Error *error) {
    static const char *const sizes[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"};
    char descr[32];
    skip_space(t);
    if (t->at < t->end && *t->at == '[') return error_set(error, "is an array of records; expected plain numbers");
    if (!parse_quoted(t, descr, sizeof descr)) return error_set(error, "the header's descr is not a text");
    if (strchr(descr, 'O'))
        return error_set(error, "holds Python objects (dtype %s): a pickle, which is not read", descr);
    const char *type = descr + (descr[0] && strchr("<>|=", descr[0]));
    bool known = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) known = known || !strcmp(type, sizes[i]);
    if (!known) return error_set(error, "has dtype '%s'; expected bool, integers or floats of at most 8 bytes", descr);
    npy->big_endian = descr[0] == '>';
    npy->kind = type[0];
    npy->item_size = type[1] - '0';
    return true;
}

/* Reads a shape: (), (3,), (3, 4), (3, 4,). */
static bool parse_shape(Text *t, Npy *npy, Error *error) {
    if (!accept(t, "(")) return error_set(error, "the header's shape is not a tuple");
    npy->count = 1;
    for (npy->rank = 0; !accept(t, ")"); npy->rank++) {
        if (npy->rank == 8) return error_set(error, "has more than 8 dimensions");
        skip_space(t);
        int64_t n = 0;
        const char *start = t->at;
        for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *t->at - '0', &n))
                return error_set(error, "has a dimension that is too large");
        if (t->at == start) return error_set(error, "the header's shape is not a tuple of sizes");
        accept(t, "L");
        npy->dims[npy->rank] = n;
        if (__builtin_mul_overflow(npy->count, n, &npy->count))
            return error_set(error, "has a shape that is too large");
        if (accept(t, ",")) continue;
        if (!npy->rank++ || !accept(t, ")")) return error_set(error, "the header's shape is not a tuple");
        break;
    }
    return true;
}

static const char SUM_MARK[] = "# xxh3_64 ";

/* Reads the checksum that npy_write appends to the dictionary as a Python comment: of the dictionary's text, then of
 * the numbers. */
static bool parse_sum(Text *t, uint64_t *sum) {
    enum { DIGITS = 16 };
    char digits[DIGITS + 1] = "", *end;
    if (!accept(t, SUM_MARK) || t->end - t->at < DIGITS) return false;
    memcpy(digits, t->at, DIGITS);
    if (strspn(digits, "0123456789abcdef") != DIGITS) return false;
    *sum = strtoull(digits, &end, 16);
    t->at += DIGITS;
    return true;
}

static bool parse_header(Text t, Npy *npy, uint64_t *sum, uint64_t *header_sum, Error *error) {
    const char *start = t.at;
    bool descr = false, order = false, shape = false;
    if (!accept(&t, "{")) return error_set(error, "the header is not a dictionary");
    while (!accept(&t, "}")) {
        char key[32];
        if (!parse_quoted(&t, key, sizeof key) || !accept(&t, ":"))
            return error_set(error, "the header is not a dictionary of three keys");
        if (!strcmp(key, "descr") && !descr) {
            if (!parse_descr(&t, npy, error)) return false;
            descr = true;
        } else if (!strcmp(key, "fortran_order") && !order) {
            npy->fortran_order = accept(&t, "True");
            if (!npy->fortran_order && !accept(&t, "False"))
                return error_set(error, "fortran_order is neither True nor False");
            order = true;
        } else if (!strcmp(key, "shape") && !shape) {
            if (!parse_shape(&t, npy, error)) return false;
            shape = true;
        } else {
            return error_set(error, "the header has an unexpected key '%s'", key);
        }
        if (accept(&t, ",")) continue;
        if (!accept(&t, "}")) return error_set(error, "the header's dictionary is not closed");
        break;
    }
    *header_sum = checksum(0, start, (size_t)(t.at - start));
    npy->has_checksum = parse_sum(&t, sum);
    skip_space(&t);
    if (!descr || !order || !shape || t.at != t.end)
        return error_set(error, "the header is not a dictionary of descr, fortran_order and shape");
    return true;
}

bool npy_parse(const void *bytes, size_t size, Npy *out, Error *error) {
    const unsigned char *b = bytes;
    *out = (Npy){0};
    if (size < 6 || memcmp(b, "\x93NUMPY", 6)) {
        OWNED char *other = foreign_of_bytes(bytes, size);
        return error_set(error, "is not an npy file%s", other);
    }
    if (size < 10) return error_set(error, "is cut off in its header");
    if (b[6] < 1 || b[6] > 3 || b[7])
        return error_set(error, "has npy version %d.%d; expected 1.0, 2.0 or 3.0", b[6], b[7]);
    size_t start = b[6] == 1 ? 10 : 12;
    if (size < start) return error_set(error, "is cut off in its header");
    size_t length = b[6] == 1 ? (size_t)b[8] | (size_t)b[9] << 8
                              : (size_t)b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > size - start) return error_set(error, "is cut off in its header");
    Text text = {(const char *)b + start, (const char *)b + start + length};
    uint64_t stated = 0, sum = 0;
    if (!parse_header(text, out, &stated, &sum, error)) return false;
    size_t have = size - start - length;
    int64_t want;
    if (__builtin_mul_overflow(out->count, (int64_t)out->item_size, &want))
        return error_set(error, "has a shape that is too large");
    if ((uint64_t)want > have)
        return error_set(error, "is truncated: it holds %zu bytes of numbers, its shape needs %lld", have,
                         (long long)want);
    if ((uint64_t)want < have)
        return error_set(error, "holds %zu bytes of numbers, its shape needs only %lld", have, (long long)want);
    out->data = b + start + length;
    sum = checksum(sum, out->data, have);
    return !out->has_checksum || sum == stated ||
           error_set(error, "is damaged: its checksum is %016llx, and its header says %016llx", (unsigned long long)sum,
                     (unsigned long long)stated);
}

/* One element; its kind selects the member. */
typedef union {
    double real;      /* 'f' */
    int64_t integer;  /* 'i' */
    uint64_t natural; /* 'u', and 'b' as 0 or 1 */
} Element;

static double half_value(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

/* Returns element i in storage order. */
static Element element(const Npy *npy, int64_t i) {
    int n = npy->item_size;
    const unsigned char *raw = npy->data + i * n;
    uint64_t bits = 0;
    for (int k = 0; k < n; k++) bits |= (uint64_t)raw[k] << 8 * (npy->big_endian ? n - 1 - k : k);
    if (npy->kind == 'b') return (Element){.natural = bits != 0};
    if (npy->kind == 'u') return (Element){.natural = bits};
    if (npy->kind == 'i') { /* the sign is the highest bit there is */
        uint64_t sign = (uint64_t)1 << (8 * n - 1);
        return (Element){.integer = (int64_t)((bits ^ sign) - sign)};
    }
    if (n == 2) return (Element){.real = half_value(bits)};
    double real;
    float single;
    uint32_t low = (uint32_t)bits;
    memcpy(&real, &bits, sizeof real);
    memcpy(&single, &low, sizeof single);
    return (Element){.real = n == 8 ? real : (double)single};
}

/* Returns the storage index of element i in C order. */
static int64_t storage_index(const Npy *npy, int64_t i) {
    if (!npy->fortran_order) return i;
    int64_t at = 0, stride = npy->count;
    for (int d = npy->rank - 1; d >= 0; d--) {
        stride /= npy->dims[d];
        at += i % npy->dims[d] * stride;
        i /= npy->dims[d];
    }
    return at;
}

bool npy_to_i32(const Npy *npy, int32_t *out, Error *error) {
    for (int64_t i = 0; i < npy->count; i++) {
        Element e = element(npy, storage_index(npy, i));
        if (npy->kind == 'f' && (!(e.real >= INT32_MIN && e.real <= INT32_MAX) || e.real != floor(e.real)))
            return error_set(error, "element %lld is %g, which is no 32-bit integer", (long long)i, e.real);
        int64_t value = npy->kind == 'f'        ? (int64_t)e.real
                        : npy->kind == 'i'      ? e.integer
                        : e.natural > INT32_MAX ? INT64_MAX
                                                : (int64_t)e.natural;
        if (value < INT32_MIN || value > INT32_MAX)
            return error_set(error, "element %lld is beyond a 32-bit integer", (long long)i);
        out[i] = (int32_t)value;
    }
    return true;
}

bool npy_to_f32(const Npy *npy, float *out, Error *error) {
    if (npy->kind == 'f' && npy->item_size == 4 && !npy->big_endian && !npy->fortran_order) {
        if (npy->count) memcpy(out, npy->data, (size_t)npy->count * sizeof *out);
        return true;
    }
    for (int64_t i = 0; i < npy->count; i++) {
        Element e = element(npy, storage_index(npy, i));
        if (npy->kind == 'f' && isfinite(e.real) && fabs(e.real) > (double)FLT_MAX)
            return error_set(error, "element %lld is %g, beyond a 32-bit float", (long long)i, e.real);
        out[i] = npy->kind == 'f' ? (float)e.real : npy->kind == 'i' ? (float)e.integer : (float)e.natural;
    }
    return true;
}

void npy_to_f64(const Npy *npy, int64_t first, int64_t count, double *out) {
    assert(first >= 0 && count >= 0 && first <= npy->count - count);
    if (npy->kind == 'f' && npy->item_size == 8 && !npy->big_endian && !npy->fortran_order) {
        if (count) memcpy(out, npy->data + first * 8, (size_t)count * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        Element e = element(npy, storage_index(npy, first + i));
        out[i] = npy->kind == 'f' ? e.real : npy->kind == 'i' ? (double)e.integer : (double)e.natural;
    }
}

bool npy_write(const char *path, const char *dtype, const void *data, int rank, const int64_t *dims, Error *error) {
    char header[512];
    size_t count = 1;
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
    for (int i = 0; i < rank; i++) {
        const char *comma = i + 1 < rank ? ", " : rank == 1 ? "," : "";
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld%s", (long long)dims[i], comma);
        count *= (size_t)dims[i];
    }
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    uint64_t sum = checksum(checksum(0, header, (size_t)n), data, count * (size_t)(dtype[2] - '0'));
    n += snprintf(header + n, sizeof header - (size_t)n, " %s%016llx", SUM_MARK, (unsigned long long)sum);
    size_t total = (10 + (size_t)n + 1 + 63) / 64 * 64, bytes = count * (size_t)(dtype[2] - '0');
    OWNED unsigned char *file = xcalloc(1, total + bytes);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)((total - 10) & 255);
    file[9] = (unsigned char)((total - 10) >> 8);
    memset(file + 10, ' ', total - 10);
    memcpy(file + 10, header, (size_t)n);
    file[total - 1] = '\n';
    if (bytes) memcpy(file + total, data, bytes);
    return file_write_atomic(path, file, total + bytes, error);
}
