#include "data/segment/patterns.h"

#include <string.h>

#include "data/segment/pattern_url.h"

typedef const Symbol *Match(const Symbol *at, const Symbol *end);

/* Returns the character at `at`, 0 at the end: no pattern knows it. */
static uint32_t peek(const Symbol *at, const Symbol *end) { return at < end ? symbol_character(*at) : 0; }
static bool is_one_of(uint32_t c, const char *characters) { return c && c < 0x80 && strchr(characters, (int)c); }
static bool is_letter(const Symbol *at, const Symbol *end) { return at < end && symbol_is(*at, SYMBOL_LETTER); }
static bool is_currency(const Symbol *at, const Symbol *end) { return at < end && symbol_is(*at, SYMBOL_CURRENCY); }
static bool is_digit(const Symbol *at, const Symbol *end) { return peek(at, end) - '0' < 10; }

static bool is_name(uint32_t c) { return (c | 32) - 'a' < 26 || c - '0' < 10 || c == '_' || c == '-'; } /* [\w-] */

static const Symbol *skip_digits(const Symbol *at, const Symbol *end) {
    while (is_digit(at, end)) at++;
    return at;
}

static const Symbol *skip_letters(const Symbol *at, const Symbol *end) {
    while (is_letter(at, end)) at++;
    return at;
}

static const Symbol *skip_names(const Symbol *at, const Symbol *end) {
    while (is_name(peek(at, end))) at++;
    return at;
}

/* ---- words with signs ---- */

/* [\w.-]* */
static const Symbol *skip_mailbox(const Symbol *at, const Symbol *end) {
    while (is_name(peek(at, end)) || peek(at, end) == '.') at++;
    return at;
}

/* \.{2,} */
static const Symbol *match_ellipsis(const Symbol *at, const Symbol *end) {
    const Symbol *begin = at;
    while (peek(at, end) == '.') at++;
    return at - begin >= 2 ? at : NULL;
}

/* [\w.-]+@([\w-]+\.)*[\w-]+ */
static const Symbol *match_email(const Symbol *at, const Symbol *end) {
    const Symbol *sign = skip_mailbox(at, end);
    if (sign == at || peek(sign, end) != '@' || !is_name(peek(sign + 1, end))) return NULL;
    at = skip_names(sign + 1, end);
    while (peek(at, end) == '.' && is_name(peek(at + 1, end))) at = skip_names(at + 1, end);
    return at;
}

/* L+([.-]L+)+|L+-\d+: letters are followed by a sign only where their run ends. */
static const Symbol *match_short_name(const Symbol *at, const Symbol *end) {
    const Symbol *first = skip_letters(at, end), *last = first;
    if (first == at) return NULL;
    while (is_one_of(peek(last, end), ".-") && is_letter(last + 1, end)) last = skip_letters(last + 1, end);
    if (last > first) return last;
    return peek(first, end) == '-' && is_digit(first + 1, end) ? skip_digits(first + 1, end) : NULL;
}

/* ---- dates and times ---- */

/* Returns the end of 0?[1-9]|[1-9]\d up to `max`, for a number that something else than a digit follows; else NULL. */
static const Symbol *match_ordinal(const Symbol *at, const Symbol *end, uint32_t max) {
    uint32_t value = 0;
    const Symbol *digit = at;
    for (; digit - at < 3 && is_digit(digit, end); digit++) value = 10 * value + (symbol_character(*digit) - '0');
    return digit - at < 3 && value >= 1 && value <= max ? digit : NULL;
}

/* Returns the end of DAY or MON and one of these signs, where DAY is (0?[1-9]|[12]\d|3[01]), MON (1[0-2]|0?[1-9]). */
static const Symbol *match_date_part(const Symbol *at, const Symbol *end, uint32_t max, const char *signs) {
    if (!is_digit(at, end)) return NULL;
    at = match_ordinal(at, end, max);
    return at && is_one_of(peek(at, end), signs) ? at + 1 : NULL;
}

/* Returns the end of \d{4}; NULL also for NULL. */
static const Symbol *match_year(const Symbol *at, const Symbol *end) {
    for (int i = 0; at && i < 4; i++) at = is_digit(at, end) ? at + 1 : NULL;
    return at;
}

/* DAY[/.-]MON[/.-]\d{4} */
static const Symbol *match_full_date(const Symbol *at, const Symbol *end) {
    at = match_date_part(at, end, 31, "/.-");
    return match_year(at ? match_date_part(at, end, 12, "/.-") : NULL, end);
}

/* MON/\d{4} */
static const Symbol *match_month(const Symbol *at, const Symbol *end) {
    return match_year(match_date_part(at, end, 12, "/"), end);
}

/* DAY/MON: of more digits than two, those that make a month. */
static const Symbol *match_date(const Symbol *at, const Symbol *end) {
    at = match_date_part(at, end, 31, "/");
    if (!at) return NULL;
    const uint32_t first = peek(at, end), second = peek(at + 1, end);
    if (first == '1' && second - '0' < 3) return at + 2;
    if (first == '0') return second - '1' < 9 ? at + 2 : NULL;
    return first - '1' < 9 ? at + 1 : NULL;
}

/* \d\d:\d\d:\d\d */
static const Symbol *match_seconds(const Symbol *at, const Symbol *end) {
    for (int i = 0; i < 8; i++)
        if (i % 3 == 2 ? peek(at + i, end) != ':' : !is_digit(at + i, end)) return NULL;
    return at + 8;
}

/* Returns the end of (0?\d|1\d|2[0-3])[:h], or NULL. */
static const Symbol *match_hour(const Symbol *at, const Symbol *end) {
    const uint32_t first = peek(at, end), second = peek(at + 1, end);
    if (first - '0' >= 10) return NULL;
    at += second - '0' >= 10 ? 1 : first < '2' || (first == '2' && second < '4') ? 2 : 0;
    return at < end && is_one_of(symbol_character(*at), ":h") ? at + 1 : NULL;
}

/* Returns the end of (’|'|p|ph)?; the longer one if `whole`. */
static const Symbol *skip_minute_sign(const Symbol *at, const Symbol *end, bool whole) {
    const uint32_t c = peek(at, end);
    if (c == 'p' && whole && peek(at + 1, end) == 'h') return at + 2;
    return at + (c == 'p' || c == '\'' || c == 0x2019);
}

/* \d\d:\d\d:\d\d|(0?\d|1\d|2[0-3])[:h](0?\d|[1-5]\d)(’|'|p|ph)?: the first way through the minutes takes one digit,
 * unless that is 0 and another follows. */
static const Symbol *match_time(const Symbol *at, const Symbol *end) {
    const Symbol *seconds = match_seconds(at, end), *minute = match_hour(at, end);
    if (seconds) return seconds;
    if (!minute || !is_digit(minute, end)) return NULL;
    return skip_minute_sign(minute + 1 + (peek(minute, end) == '0' && is_digit(minute + 1, end)), end, false);
}

static bool is_whole_time(SymbolSpan t) {
    if (match_seconds(t.begin, t.end) == t.end) return true;
    const Symbol *minute = match_hour(t.begin, t.end);
    if (!minute || !is_digit(minute, t.end)) return false;
    const bool two = peek(minute, t.end) < '6' && is_digit(minute + 1, t.end);
    return skip_minute_sign(minute + 1 + two, t.end, true) == t.end;
}

/* ---- numbers ---- */

/* (\d+([.,]\d+)*)? */
static const Symbol *skip_number(const Symbol *at, const Symbol *end) {
    if (!is_digit(at, end)) return at;
    at = skip_digits(at, end);
    while (is_one_of(peek(at, end), ".,") && is_digit(at + 1, end)) at = skip_digits(at + 1, end);
    return at;
}

/* S\d+([.,]\d+)*|\d+([.,]\d+)*S: a number is followed by S only where it ends. */
static const Symbol *match_money(const Symbol *at, const Symbol *end) {
    if (is_currency(at, end)) return is_digit(at + 1, end) ? skip_number(at + 1, end) : NULL;
    const Symbol *number = skip_number(at, end);
    return number > at && is_currency(number, end) ? number + 1 : NULL;
}

/* Returns the end of NUM, [-+]?\d+([.,]\d+)*%?S?, or NULL. */
static const Symbol *match_amount(const Symbol *at, const Symbol *end) {
    at += is_one_of(peek(at, end), "-+");
    if (!is_digit(at, end)) return NULL;
    at = skip_number(at, end);
    at += peek(at, end) == '%';
    return at + is_currency(at, end);
}

/* NUM([-+*\/]NUM)* */
static const Symbol *match_numbers(const Symbol *at, const Symbol *end) {
    const Symbol *last = match_amount(at, end), *next = last;
    while (next && is_one_of(peek(next, end), "-+*/"))
        if ((next = match_amount(next + 1, end))) last = next;
    return last;
}

/* Returns the end of \d{2,}[.-]?\d{3,}[.-]?\d{3,}, or NULL. Of up to three runs of digits, with one sign between them,
 * backtracking gives away the last digits of a run one by one, until there are enough for the groups that have no run
 * of their own: first three of the second run, then three of the first, then six of the first. whole: the match must
 * reach the end. */
static const Symbol *match_digit_groups(const Symbol *at, const Symbol *end, bool whole) {
    const Symbol *ends[3] = {skip_digits(at, end)};
    ptrdiff_t lengths[3] = {ends[0] - at};
    for (int i = 1; i < 3; i++) {
        const Symbol *begin = ends[i - 1] + is_one_of(peek(ends[i - 1], end), ".-");
        ends[i] = begin > ends[i - 1] ? skip_digits(begin, end) : begin;
        lengths[i] = ends[i] - begin;
    }
    const bool fits[] = {lengths[0] >= 2 && lengths[1] >= 3 && lengths[2] >= 3, lengths[0] >= 2 && lengths[1] >= 6,
                         lengths[0] >= 5 && lengths[1] >= 3, lengths[0] >= 8};
    static const int end_of[] = {2, 1, 1, 0};
    for (int i = 0; i < 4; i++)
        if (fits[i] && (!whole || ends[end_of[i]] == end)) return ends[end_of[i]];
    return NULL;
}

/* (\(?\+\d{1,2}\)?[.-]?)?\d{2,}[.-]?\d{3,}[.-]?\d{3,}: all ways through the country code, the longest parts first. */
static const Symbol *match_phone_to(const Symbol *at, const Symbol *end, bool whole) {
    if (is_digit(at, end)) return match_digit_groups(at, end, whole);
    const Symbol *code = at + (peek(at, end) == '('), *match;
    if (peek(code++, end) != '+') return NULL;
    for (int digits = 2; digits; digits--) {
        if (!is_digit(code, end) || !is_digit(code + digits - 1, end)) continue;
        for (int closed = peek(code + digits, end) == ')'; closed >= 0; closed--) {
            const Symbol *next = code + digits + closed;
            for (int sign = is_one_of(peek(next, end), ".-"); sign >= 0; sign--)
                if ((match = match_digit_groups(next + sign, end, whole))) return match;
        }
    }
    return NULL;
}

static const Symbol *match_phone(const Symbol *at, const Symbol *end) { return match_phone_to(at, end, false); }

/* ---- signs ---- */

/* One of , . : ? ! ; - _ " ' “ ” | ( ) [ ] { } \ / … ‘ ’ · or of nine sequences, which are “ and other signs of an
 * earlier encoding, read wrongly. */
static const Symbol *match_punctuation(const Symbol *at, const Symbol *end) {
    const uint32_t c = peek(at, end), second = peek(at + 1, end), third = peek(at + 2, end);
    if (is_one_of(c, ",.:?!;-_\"'|()[]{}\\/") || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x201C ||
        c == 0x201D || c == 0x2026)
        return at + 1;
    if (c == 0xC2 && (second == 0xAB || second == 0xBB)) return at + 2;
    const bool is_sequence = c == 0xE2 && ((second == 0x178 && (third == 0xA8 || third == 0xA9)) ||
                                           (second == 0x20AC && (third == 0xA6 || third == 0x153 || third == 0x2DC ||
                                                                 third == 0x2122 || third == 0xFFFD)));
    return is_sequence ? at + 3 : NULL;
}

/* One of ~ @ # ^ & * + - < > | or the sequence U+00E2 U+20AC U+201C. */
static const Symbol *match_special(const Symbol *at, const Symbol *end) {
    if (is_one_of(peek(at, end), "~@#^&*+-<>|")) return at + 1;
    return peek(at, end) == 0xE2 && peek(at + 1, end) == 0x20AC && peek(at + 2, end) == 0x201C ? at + 3 : NULL;
}

/* Each returns the end of a match at `at`, NULL if there is none. */
static Match *const matches[PATTERNS] = {
    match_ellipsis, match_email, pattern_match_url, match_full_date, match_month,       match_date,   match_time,
    match_money,    match_phone, match_short_name,  match_numbers,   match_punctuation, match_special};

/* Each returns behind what characters no match begins if none begins at `at`, so that long runs are read once. */
static Match *const skips[PATTERNS] = {
    [PATTERN_EMAIL] = skip_mailbox, [PATTERN_MONEY] = skip_number, [PATTERN_SHORT_NAME] = skip_letters};

SymbolSpan pattern_find(Pattern pattern, SymbolSpan token) {
    if (pattern == PATTERN_URL) return pattern_find_url(token);
    for (const Symbol *at = token.begin, *next; at < token.end; at = next) {
        const Symbol *end = matches[pattern](at, token.end);
        if (end) return (SymbolSpan){at, end};
        next = skips[pattern] ? skips[pattern](at, token.end) : at;
        if (next == at) next++;
    }
    return (SymbolSpan){NULL, NULL};
}

bool pattern_is_whole(Pattern pattern, SymbolSpan token) {
    if (pattern == PATTERN_TIME) return is_whole_time(token);
    if (pattern == PATTERN_PHONE) return match_phone_to(token.begin, token.end, true) == token.end;
    return matches[pattern](token.begin, token.end) == token.end;
}
