#include "tests/page_rig.h"

#include "page/page.h"

enum { DEEPEST = 64 };

/* The elements that are open. */
typedef struct {
    char names[DEEPEST][16];
    int n;
} Elements;

static bool is_void(const char *name) {
    static const char *const names[] = {"!doctype", "meta", "br"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* Returns the end of a tag, behind its '>'. */
static const char *tag_end(const char *at) {
    bool quoted = false;
    for (at++; *at && (quoted || *at != '>'); at++) {
        quoted ^= *at == '"';
        if (*at == '<') fail_msg("a '<' within a tag: %.80s", at);
    }
    if (!*at) fail_msg("a tag without an end");
    return at + 1;
}

/* Opens or closes the element of the tag at `at`; returns what follows the tag. */
static const char *take_tag(Elements *open, const char *at) {
    char name[16];
    bool closes = at[1] == '/';
    const char *begin = at + 1 + closes, *end = tag_end(at);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(begin, " \n/>"), begin);
    if (is_void(name) || end[-2] == '/') return end;
    if (closes) {
        if (!open->n || strcmp(open->names[open->n - 1], name))
            fail_msg("</%s> closes <%s>: %.80s", name, open->n ? open->names[open->n - 1] : "", at);
        open->n--;
        return end;
    }
    assert_true(open->n < DEEPEST);
    memcpy(open->names[open->n++], name, sizeof name);
    return strcmp(name, "style") ? end : strstr(end, "</style>");
}

/* Fails if `text` is anywhere but where `allowed` begins there. */
static void assert_only(const char *page, const char *text, const char *allowed) {
    for (const char *at = page; (at = strstr(at, text)); at++)
        if (!allowed || strncmp(at, allowed, strlen(allowed))) fail_msg("the page has: %.80s", at);
}

void assert_page_is_sound(const char *page) {
    Elements open = {.n = 0};
    assert_true(strlen(page) <= PAGE_LIMIT);
    for (const char *at = page; (at = strchr(at, '<'));) at = take_tag(&open, at);
    if (open.n) fail_msg("<%s> is not closed", open.names[open.n - 1]);
    assert_only(page, "http:", "http://www.w3.org/2000/svg\"");
    assert_only(page, " src=", " src=\"data:audio/");
    static const char *const banned[] = {"<script", "https:", " href", "<img", "<link", "<iframe", "@import", "url("};
    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++) assert_only(page, banned[i], NULL);
}

char *read_page(const char *directory) {
    char *path = kept_path(directory, "report.html"), *page = kept_text(path);
    assert_page_is_sound(page);
    return page;
}

void assert_page_has(const char *page, const char *const *texts) {
    for (; *texts; texts++)
        if (!strstr(page, *texts)) fail_msg("the page does not have: %s", *texts);
}
