#include "data/bert/grammar.h"

#include <string.h>

/* ---- words ---- */

/* Words for a place in a pattern. Labelled training comments have none of those behind '#'. */
typedef struct {
    const char *place, *words;
} Words;

static const Words words[] = {
    {"you", "bạn|bác|anh|ông|cậu|mày|chủ thớt|thằng em#thanh niên|chú em"},
    {"me", "mình|tôi|em|tao#tui|tớ"},
    {"other", "người ta|bạn ấy|nó|chị kia|anh kia|nhân viên#ông kia|khách hàng"},
    {"bad", "ngu|dốt|đần|vô duyên|láo|hèn|khùng|lười|nhỏ nhen|vô học|lố bịch#ngốc|xấu tính|trẻ trâu"},
    {"good", "giỏi|thông minh|lịch sự|tốt bụng|dễ thương|tử tế|hiền|chăm chỉ|khéo|thật thà#hài hước|nhiệt tình|có "
             "tâm|đáng yêu"},
    {"insult", "đồ ngu|thằng hề|óc bã đậu|não cá vàng|đồ rẻ tiền|kẻ bịp#đồ dở hơi|anh hùng bàn phím"},
    {"praise", "cao thủ|người tốt|thần tượng|thiên tài|người tử tế|bạn hiền#tấm gương|chuyên gia"},
    {"thing", "bài viết|cái máy|con điện thoại|bộ phim|quán|cái app|con xe|trận đấu#cái laptop|khoá học|bài hát"},
    {"poor", "dở|tệ|chán|xấu|chậm|nhạt#lỗi|phí tiền"},
    {"fine", "hay|đẹp|ngon|mượt|bền|ổn#chất|xịn"},
    {"very", "quá|thật|lắm|ghê|dữ#kinh khủng|hết chỗ nói"},
    {"dont", "đừng|xin đừng|không nên|sao lại#chớ|thôi đừng"},
    {"wrong", "không nên|không hay|không đúng|sai#quá đáng"},
    {"thanks", "cảm ơn|cám ơn|thanks#đa tạ|biết ơn"},
    {"leave", "cút|biến|im|xéo#câm miệng"},
    {"rest", "nghỉ ngơi|ngủ sớm|ăn uống đầy đủ|thư giãn#giữ sức khoẻ"},
    {"topic", "nấu ăn|chụp ảnh|lái xe|đá bóng|học tiếng Anh#chơi game|đầu tư"},
    {"place", "lớp|công ty|quê|khu nhà#ký túc xá|chỗ làm"},
};

static const char openings[] =
    "nói thật|thật ra|theo mình|đọc xong|ý kiến riêng|ủa|haiz|trời ơi|công nhận|nghĩ lại#ngẫm lại|tóm lại";
static const char closings[] = "nhé|nha|ạ|hết|thế thôi|luôn|đó#nghen|vậy đó";
static const char asides[] =
    "hôm nay trời đẹp {very}|mạng ở {place} chậm {very}|mai lại thứ hai rồi|vừa xem {thing} xong, {fine} {very}|"
    "vừa dùng {thing} xong, {poor} {very}|đang chờ xe buýt|cả {place} đang bàn chuyện này|{thing} này ai dùng chưa|"
    "{topic} ở {place} vui {very}#bữa giờ bận {very}|{me} mới về {place}";

/* ---- patterns ---- */

/* Statements about somebody, {x}, with words of blame or of praise. */
static const char *const statements[] = {
    "{x} {adjective} {very}",       "{x} thật là {noun}",
    "{x} lúc nào cũng {adjective}", "{x} vừa {adjective} vừa {adjective}",
    "{x} nói chuyện {adjective}",   "{x} {topic} {adjective} {very}",
    "ai cũng thấy {x} {adjective}", "{x} là {noun} của {place}",
    "{x} {adjective} nhất {place}", "{x} {adjective} có tiếng",
    "{x} làm gì cũng {adjective}",  "{x} sống {adjective} {very}",
    "trông {x} {adjective}",        "{x} {adjective} từ bé",
    "{x} là người {adjective}",
};

/* A sentence around a statement {s}. A pattern is a frame with a statement in it. */
typedef struct {
    const char *kind, *text;
} Frame;

/* The frames that let the statement stand; {t} is a statement to the contrary. */
static const Frame stated[] = {
    {"plain", "{s}"},
    {"plain", "nói thẳng ra {s}"},
    {"plain", "{me} thấy {s}"},
    {"plain", "đúng là {s}"},
    {"plain", "đọc là biết {s}"},
    {"plain", "phải nói là {s}"},
    {"plain", "{other} bảo {s}, đúng {very}"},
    {"plain", "càng ngày càng thấy {s}"},
    {"contrast", "tưởng {t}, ai ngờ {s}"},
    {"contrast", "trước thì {t}, giờ {s}"},
    {"contrast", "{other} bảo {t}, {me} thấy {s}"},
    {"contrast", "{s} chứ không phải {t}"},
};

/* The frames that deny the statement. */
static const Frame denied[] = {
    {"denial", "đâu phải {s}"},         {"denial", "ai bảo {s}, sai rồi"},  {"denial", "không có chuyện {s}"},
    {"denial", "{dont} nghĩ {s}"},      {"denial", "làm gì có chuyện {s}"}, {"report", "nói {s} là {wrong}"},
    {"report", "nghĩ {s} thì nhầm to"}, {"report", "{dont} bảo {s} nữa"},
};

/* The frames in which one says the statement of oneself, which is polite in any case. */
static const Frame confessed[] = {
    {"oneself", "{s}, nhờ {you} chỉ giúp"},
    {"oneself", "hồi đó {s}, giờ mới hiểu"},
    {"oneself", "xin lỗi {you}, {s}"},
    {"oneself", "tại {s}, không phải tại {you}"},
};

/* Sentences that say nothing about a person. */
static const char *const polite_talk[] = {
    "{thing} này {poor} {very}",
    "{thing} này {fine} {very}",
    "mua {thing} về thấy {poor}, {thanks} {you} đã nhắc",
    "{thanks} {you} đã chỉ {topic}",
    "{you} cho {me} hỏi {topic} thế nào",
    "ai biết {topic} chỉ {me} với",
    "{rest} đi {you}",
    "thôi {you} {rest} đi",
    "{you} {rest} cho khoẻ",
    "dùng thử {thing} rồi, {poor} {very}",
    "{thing} gì mà {poor} {very}",
    "{you} chỉ {me} {topic} với",
    "ai rành {topic} cho {me} hỏi",
    "{thing} của {me} {fine} {very}",
    "{rest} nha {you}",
};
static const char *const rude_talk[] = {
    "{leave} đi {you}",
    "thôi {you} {leave} đi",
    "{you} {leave} cho {place} yên",
    "{leave} đi cho {other} nhờ",
    "tranh cãi gì với {insult}",
    "{thing} này chỉ {insult} mới mua",
    "{you} {leave} đi, ở đây không ai cần",
    "{leave} đi {insult}",
    "{you} biết gì về {topic} mà hỏi",
    "{thing} {fine} thế mà {insult} cũng chê",
    "{you} {leave} ngay",
    "{thing} này dành cho {insult}",
    "chỉ {insult} mới khen {thing} này",
    "{insult} thì {leave} đi",
    "ai cần {you}, {leave} đi",
};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Returns whether comments of a file have a pattern: of five patterns one tests, one validates, three are trained on.
 */
static bool belongs(int pattern, int file) {
    int fifth = pattern % 5, labelled = fifth == 0 ? SYNTHETIC_TEST : fifth == 1 ? SYNTHETIC_VALID : SYNTHETIC_TRAIN;
    return file == labelled || (file == SYNTHETIC_UNLABELLED && labelled != SYNTHETIC_TEST);
}

/* Returns the number below n of a pattern for the file. first: the number of pattern 0 among all. */
static int choose_pattern(int n, int first, int file, Dice *dice) {
    int i;
    do i = dice_below(dice, n);
    while (!belongs(first + 3 * i, file));
    return i;
}

/* ---- sentences ---- */

/* The source of the words that fill the places of a pattern. */
typedef struct {
    Dice *dice;
    const char *person, *s; /* the statement, and whom it is about */
    size_t person_size;
    bool known; /* only words in front of '#' */
    bool blame;
} Filling;

static void choose(FILE *out, const char *choices, const Filling *filling);

static void fill(FILE *out, const char *pattern, size_t size, const Filling *filling);

static bool is(const char *place, size_t n, const char *name) { return strlen(name) == n && !strncmp(place, name, n); }

static const char *words_for(const char *place, size_t n) {
    for (int i = 0; i < COUNT(words); i++)
        if (is(place, n, words[i].place)) return words[i].words;
    die("the grammar has no words for {%.*s}", (int)n, place);
}

static void fill_statement(FILE *out, const Filling *filling) { fill(out, filling->s, strlen(filling->s), filling); }

static void fill_place(FILE *out, const char *place, size_t n, const Filling *filling) {
    if (is(place, n, "s")) {
        fill_statement(out, filling);
        return;
    }
    if (is(place, n, "t")) {
        Filling contrary = *filling;
        contrary.blame = !filling->blame;
        contrary.s = statements[dice_below(filling->dice, COUNT(statements))];
        fill_statement(out, &contrary);
        return;
    }
    if (is(place, n, "x")) {
        fwrite(filling->person, 1, filling->person_size, out);
        return;
    }
    const char *name = is(place, n, "adjective") ? filling->blame ? "bad" : "good"
                       : is(place, n, "noun")    ? filling->blame ? "insult" : "praise"
                                                 : NULL;
    choose(out, name ? words_for(name, strlen(name)) : words_for(place, n), filling);
}

static void fill(FILE *out, const char *pattern, size_t size, const Filling *filling) {
    for (const char *at = pattern, *end = pattern + size; at < end;) {
        size_t n = strcspn(at, "{");
        if (n > (size_t)(end - at)) n = (size_t)(end - at);
        fwrite(at, 1, n, out);
        at += n;
        if (at == end) break;
        n = strcspn(++at, "}");
        fill_place(out, at, n, filling);
        at += n + 1;
    }
}

/* Returns one of the choices and sets its size. known: none behind '#'. */
static const char *pick(const char *choices, bool known, Dice *dice, size_t *size) {
    size_t end = strcspn(choices, known ? "#" : "");
    int n = 1;
    for (size_t i = 0; i < end; i++) n += choices[i] == '|' || choices[i] == '#';
    for (int which = dice_below(dice, n); which > 0; which--) choices += strcspn(choices, "|#") + 1;
    *size = strcspn(choices, "|#");
    return choices;
}

/* Writes one of the choices, with choices for the places in it. */
static void choose(FILE *out, const char *choices, const Filling *filling) {
    size_t size;
    const char *choice = pick(choices, filling->known, filling->dice, &size);
    fill(out, choice, size, filling);
}

void grammar_choose(FILE *out, const char *choices, Dice *dice) {
    choose(out, choices, &(Filling){.dice = dice, .person = "", .s = ""});
}

/* Writes one of n frames with a statement in it. Returns its kind. */
static const char *write_framed(FILE *out, const Frame *frames, int n, int file, Filling *filling) {
    const char *persons = frames == confessed ? words_for("me", 2) : words_for("you", 3);
    filling->person = pick(persons, filling->known, filling->dice, &filling->person_size);
    int frame = dice_below(filling->dice, n);
    filling->s = statements[choose_pattern(COUNT(statements), frame, file, filling->dice)];
    fill(out, frames[frame].text, strlen(frames[frame].text), filling);
    return frames[frame].kind;
}

const char *grammar_sentence(FILE *out, int file, bool rude, Dice *dice) {
    Filling filling = {.dice = dice, .person = "", .s = "", .known = file == SYNTHETIC_TRAIN, .blame = rude};
    int percent = dice_below(dice, 100);
    if (percent < 25) {
        const char *const *talk = rude ? rude_talk : polite_talk;
        const char *pattern = talk[choose_pattern(rude ? COUNT(rude_talk) : COUNT(polite_talk), 0, file, dice)];
        fill(out, pattern, strlen(pattern), &filling);
        return "talk";
    }
    if (percent < 45) {
        filling.blame = !rude;
        return write_framed(out, denied, COUNT(denied), file, &filling);
    }
    if (percent < 55 && !rude) {
        filling.blame = dice_chance(dice, 0.8);
        return write_framed(out, confessed, COUNT(confessed), file, &filling);
    }
    return write_framed(out, stated, COUNT(stated), file, &filling);
}

static void choose_for(FILE *out, const char *choices, int file, Dice *dice) {
    choose(out, choices, &(Filling){.dice = dice, .person = "", .s = "", .known = file == SYNTHETIC_TRAIN});
}

void grammar_opening(FILE *out, int file, Dice *dice) { choose_for(out, openings, file, dice); }
void grammar_closing(FILE *out, int file, Dice *dice) { choose_for(out, closings, file, dice); }
void grammar_aside(FILE *out, int file, Dice *dice) { choose_for(out, asides, file, dice); }
