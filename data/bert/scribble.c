#include "data/bert/scribble.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <uninorm.h>
#include <unistr.h>

static const char *const short_forms[][2] = {{"không", "ko|k|hông|hong|khum"},
                                             {"được", "đc|dc"},
                                             {"vậy", "v|z"},
                                             {"rồi", "r|rùi"},
                                             {"mình", "mk|mik"},
                                             {"người", "ng|ngừi"},
                                             {"biết", "bít|bik"},
                                             {"gì", "j|ji"},
                                             {"với", "vs"},
                                             {"cũng", "cx|cũg"},
                                             {"thôi", "thui|thoy"},
                                             {"bạn", "bn|b"},
                                             {"nhiều", "nhìu"},
                                             {"quá", "qá|wá"},
                                             {"nhưng", "nhg|nhưg"},
                                             {"thật", "thiệt|thặc"},
                                             {"chẳng", "chả"},
                                             {"đâu", "đou|âu"},
                                             {"lắm", "lém"},
                                             {"tôi", "t|toi"},
                                             {"giờ", "h"},
                                             {"đừng", "đừg|dừng"},
                                             {"vẫn", "vẩn|vãn"},
                                             {"thế", "thía"},
                                             {"giỏi", "zỏi|giõi"},
                                             {"yêu", "iu"},
                                             {"chụp", "chụp|chup"}};

static const char emoji_of_all[] = "😂|🤣|😅|😆|🙃|🤔", emoji_of_polite[] = "😍|❤️|🙏|👍|🥰",
                  emoji_of_rude[] = "😡|🤡|🙄|👎|🤮";
static const char laughs[] = "=))|:v|haha|hihi|kkk|:)))|=]]", ends[] = "||.|.|!|!!!|...|?|~";

/* How a comment is written. */
typedef struct {
    bool bare, short_forms;
    double bare_words; /* share of them */
    int stretched;     /* number of the word whose last letter is repeated; -1: none */
} Hand;

static Hand take_hand(const char *text, double noise, Dice *dice) {
    Hand hand = {.stretched = -1};
    int blanks = 0;
    for (const char *at = text; *at; at++) blanks += *at == ' ' || *at == '\n';
    hand.bare = dice_chance(dice, 0.08 * noise);
    hand.bare_words = dice_chance(dice, 0.1 * noise) ? 0.3 : 0;
    hand.short_forms = dice_chance(dice, 0.2 * noise);
    if (dice_chance(dice, 0.12 * noise)) hand.stretched = dice_below(dice, blanks + 1);
    return hand;
}

static void *checked(void *text) {
    if (!text) die("out of memory");
    return text;
}

/* Writes a text; bare: without marks above and below its letters, and with d for đ. */
static void write_part(FILE *out, const char *text, size_t size, bool bare) {
    size_t n = size;
    OWNED uint8_t *apart = bare ? checked(u8_normalize(UNINORM_NFD, (const uint8_t *)text, size, NULL, &n)) : NULL;
    if (!bare) fwrite(text, 1, size, out);
    for (size_t at = 0; bare && at < n;) {
        ucs4_t c;
        size_t bytes = (size_t)u8_mbtoucr(&c, apart + at, n - at);
        if (c == 0x111)
            fputc('d', out);
        else if (c < 0x300 || c > 0x36f)
            fwrite(apart + at, 1, bytes, out);
        at += bytes;
    }
}

static void write_word(FILE *out, const char *word, size_t size, const Hand *hand, bool stretched, Dice *dice) {
    bool bare = hand->bare || dice_chance(dice, hand->bare_words),
         shorten = hand->short_forms && dice_chance(dice, 0.7);
    for (size_t i = 0; shorten && i < sizeof short_forms / sizeof *short_forms; i++)
        if (strlen(short_forms[i][0]) == size && !strncmp(short_forms[i][0], word, size)) {
            grammar_choose(out, short_forms[i][1], dice);
            return;
        }
    size_t last = size;
    while (last > 0 && ((unsigned char)word[--last] & 0xC0) == 0x80) continue;
    write_part(out, word, size, bare);
    for (int times = stretched ? 2 + dice_below(dice, 4) : 0; times > 0; times--)
        write_part(out, word + last, size - last, bare);
}

static void write_words(FILE *out, const char *text, const Hand *hand, Dice *dice) {
    for (int word = 0; *text; word++) {
        size_t size = strcspn(text, " \n,."), rest = strspn(text + size, ",.");
        if (size) write_word(out, text, size, hand, word == hand->stretched, dice);
        fwrite(text + size, 1, rest, out);
        text += size + rest;
        if (*text) fputc(*text++, out);
    }
}

static void write_end(FILE *out, bool rude, double noise, Dice *dice) {
    grammar_choose(out, ends, dice);
    if (dice_chance(dice, 0.2 * noise)) {
        fputc(' ', out);
        grammar_choose(out, laughs, dice);
    }
    if (!dice_chance(dice, 0.35 * noise)) return;
    const char *emoji = dice_chance(dice, 0.6) ? emoji_of_all : rude ? emoji_of_rude : emoji_of_polite;
    fputc(' ', out);
    for (int times = 1 + dice_below(dice, 3); times > 0; times--) grammar_choose(out, emoji, dice);
}

/* Returns the text with a capital letter at its beginning, or in capitals; frees it. */
static char *capitalize(char *text, bool all) {
    size_t size = strlen(text), first = all ? size : (size_t)u8_strmblen((const uint8_t *)text), n;
    OWNED uint8_t *capitals = checked(u8_toupper((const uint8_t *)text, first, NULL, NULL, NULL, &n));
    char *out = xformat("%.*s%s", (int)n, (const char *)capitals, text + first);
    free(text);
    return out;
}

char *scribble(const char *text, bool rude, double noise, Dice *dice) {
    Hand hand = take_hand(text, noise, dice);
    char *written;
    size_t size;
    FILE *out = checked(open_memstream(&written, &size));
    write_words(out, text, &hand, dice);
    write_end(out, rude, noise, dice);
    fclose(out);
    bool all = dice_chance(dice, 0.04 * noise);
    return all || dice_chance(dice, 0.4) ? capitalize(written, all) : written;
}
