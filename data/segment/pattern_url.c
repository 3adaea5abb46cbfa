/* ((https?|ftp)://|www\.)[^\s/$.?#]N\S*|(https?://)?(www\.)?U{2,256}\.[a-z]{2,6}\bV*, where U is [-\w@:%.+~#=], and V
 * is U or one of ?&/.
 *
 * The first alternative reaches to the end of the token, which has no spaces. In the second, \b and the greedy V* leave
 * one way to go on behind a dot: all word characters that follow it are two to six lower-case letters, and the match
 * ends where the characters of V end. So it is enough to know whether there is such a dot 2 to 256 characters further
 * on, with nothing but U between. */
#include "data/segment/pattern_url.h"

#include <string.h>

enum { HOST_MIN = 2, HOST_MAX = 256, DOMAIN_MIN = 2, DOMAIN_MAX = 6, PREFIX_MAX = 12 /* https://www. */ };

static bool is_word(uint32_t c) { return (c | 32) - 'a' < 26 || c - '0' < 10 || c == '_'; }

static bool is_host(uint32_t c) { return is_word(c) || (c && c < 0x80 && strchr("-@:%.+~#=", (int)c)); }
static bool is_path(uint32_t c) { return is_host(c) || c == '?' || c == '&' || c == '/'; }

/* Returns where a text ends that the symbols begin with, or `at` if they do not. */
static const Symbol *skip(const Symbol *at, const Symbol *end, const char *text) {
    const Symbol *next = at;
    for (; *text; text++, next++)
        if (next == end || symbol_character(*next) != (unsigned char)*text) return at;
    return next;
}

/* Returns whether \.[a-z]{2,6}\b is at `at`. */
static bool is_domain(const Symbol *at, const Symbol *end) {
    if (symbol_character(*at) != '.') return false;
    const Symbol *letter = at + 1;
    while (letter < end && letter - at <= DOMAIN_MAX && symbol_character(*letter) - 'a' < 26) letter++;
    return letter - at > DOMAIN_MIN && (letter == end || !is_word(symbol_character(*letter)));
}

/* Returns whether U{2,256}\.[a-z]{2,6}\b is at `at`. */
static bool is_host_name(const Symbol *at, const Symbol *end) {
    for (const Symbol *dot = at; dot < end && dot - at <= HOST_MAX && is_host(symbol_character(*dot)); dot++)
        if (dot - at >= HOST_MIN && is_domain(dot, end)) return true;
    return false;
}

/* Returns whether [^\s/$.?#]N\S* is at `at`: of the rest, all but the two first characters match. */
static bool is_address(const Symbol *at, const Symbol *end) {
    if (end - at < 2) return false;
    const uint32_t first = symbol_character(at[0]), second = symbol_character(at[1]);
    return !(first && first < 0x80 && strchr("/$.?#", (int)first)) &&
           !(second == 0x85 || second == 0x2028 || second == 0x2029);
}

/* Returns where the match at `at` ends, NULL if there is none. far: no domain is near enough to `at`. */
static const Symbol *match_at(const Symbol *at, const Symbol *end, bool far) {
    const Symbol *http = skip(at, end, "http://"), *ftp = skip(at, end, "ftp://"), *www = skip(at, end, "www.");
    if (http == at) http = skip(at, end, "https://");
    if ((http > at && is_address(http, end)) || (ftp > at && is_address(ftp, end)) ||
        (www > at && is_address(www, end)))
        return end;
    if (far) return NULL;
    const Symbol *behind_http = skip(http, end, "www.");
    if (!is_host_name(at, end) && !(http > at && is_host_name(http, end)) &&
        !(behind_http > http && is_host_name(behind_http, end)))
        return NULL;
    while (at < end && is_path(symbol_character(*at))) at++;
    return at;
}

const Symbol *pattern_match_url(const Symbol *at, const Symbol *end) { return match_at(at, end, false); }

SymbolSpan pattern_find_url(SymbolSpan token) {
    const Symbol *dot = token.begin;
    for (const Symbol *at = token.begin; at < token.end; at++) {
        if (dot < at) dot = at;
        while (dot < token.end && !is_domain(dot, token.end)) dot++;
        const Symbol *end = match_at(at, token.end, dot == token.end || dot - at > HOST_MAX + PREFIX_MAX);
        if (end) return (SymbolSpan){at, end};
    }
    return (SymbolSpan){NULL, NULL};
}
