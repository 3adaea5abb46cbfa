#include "page/results.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/audio/compress.h"
#include "report/html.h"
#include "report/markdown.h"

/* The files of a folder by their names. */
typedef struct {
    char *text, **names; /* names[n] point into the text */
    int n;
} Names;

static void names_free(Names *names) { FREE(names->names, names->text); }

static Names names_of(const Folder *folder, const char *end) {
    Names names = {.text = folder_files(folder, end)};
    char *rest = names.text, *name;
    while ((name = strsep(&rest, "\n")))
        if (*name) {
            names.names = xrealloc(names.names, (size_t)(names.n + 1) * sizeof *names.names);
            names.names[names.n++] = name;
        }
    return names;
}

/* Reads a text; NULL with the reason. A zero byte would hide what follows it from the check of a picture. */
static char *read_in(const Folder *folder, const char *name, Error *error) {
    OWNED char *path = path_join(folder->path, name);
    char *text = NULL;
    size_t size;
    bool ok = read_file(path, &text, &size, error);
    if (!ok || strlen(text) == size) return ok ? text : NULL;
    error_set(error, "it is no text: byte %zu is zero", strlen(text) + 1);
    free(text);
    return NULL;
}

static char *shown_name(const Folder *folder, const char *name) {
    return *folder->name ? xformat("%s/%s", folder->name, name) : xstrdup(name);
}

/* ---- pictures ---- */

static bool is_curve(const char *name) {
    static const char *const curves[] = {"loss.svg", "curves.svg", "validation_loss.svg", "validation_accuracy.svg"};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (!strcmp(name, curves[i])) return true;
    return false;
}

/* Returns the length of the longest common end of two names without their extensions that begins with '_', or is all
 * of the report's name. */
static size_t common_end(const char *picture, const char *report) {
    size_t a = strlen(picture) - strlen(".svg"), b = strlen(report) - strlen(".md"), n = 0, common = 0;
    for (; n < a && n < b && picture[a - n - 1] == report[b - n - 1]; n++)
        if (picture[a - n - 1] == '_') common = n + 1;
    return n == b ? n : common;
}

/* Returns the index of the report that a picture belongs to: the first one if none ends alike. */
static int report_of(const Names *reports, const char *picture) {
    int best = 0;
    size_t most = 0;
    for (int r = 0; r < reports->n; r++)
        if (common_end(picture, reports->names[r]) > most) most = common_end(picture, reports->names[best = r]);
    return best;
}

/* Returns the classes of a picture: too wide for one of two columns, or for a phone's screen. */
static const char *width_classes(const char *svg) {
    const char *text = strstr(svg, " width=\"");
    int width = text ? atoi(text + strlen(" width=\"")) : 0;
    return width > 900 ? " class=\"wide broad\"" : width > 560 ? " class=\"broad\"" : "";
}

static void write_picture(FILE *out, Room *room, const Folder *folder, const char *name) {
    Error error;
    Part part;
    OWNED char *shown = shown_name(folder, name), *text = read_in(folder, name, &error);
    if (!text || !html_svg_check(text, &error)) {
        room_leave_out(room, shown, error.text);
    } else {
        part_begin(&part);
        fprintf(part.out, "<figure%s>", width_classes(text));
        fputs(text, part.out);
        fputs("</figure>\n", part.out);
        part_place(&part, room, out, shown);
    }
}

/* ---- reports ---- */

enum { OPEN = 2 /* so many reports are open at first */ };

/* Returns the names of the reports: each .md that has a .json of the same name. Other files are of the user. */
static Names reports_of(const Folder *folder) {
    Names names = names_of(folder, ".md");
    int n = 0;
    for (int i = 0; i < names.n; i++) {
        OWNED char *json = xformat("%.*s.json", (int)(strlen(names.names[i]) - strlen(".md")), names.names[i]);
        if (folder_has(folder, json)) names.names[n++] = names.names[i];
    }
    names.n = n;
    return names;
}

/* Returns the text of the first heading, or the file's name; free(). */
static char *title_of(const char *text, const char *name) {
    size_t size = strcspn(text, "\n");
    return strncmp(text, "# ", 2) ? xstrdup(name) : markdown_unescape(xformat("%.*s", (int)size - 2, text + 2));
}

/* A report of a folder. */
typedef struct {
    const Folder *folder;
    const Names *reports;
    int at;
    bool open;
} Report;

/* Writes the pictures that belong to a report. out NULL: lists them, since the report is left out. */
static void write_pictures(FILE *out, Room *room, const Report *r) {
    static const char before[] = "<div class=\"figures\">\n", after[] = "</div>\n";
    Names pictures = names_of(r->folder, ".svg");
    int n = 0;
    for (int i = 0; i < pictures.n; i++) {
        if (is_curve(pictures.names[i]) || report_of(r->reports, pictures.names[i]) != r->at) continue;
        if (!out) room_leave_out(room, pictures.names[i], "its report is left out");
        if (!out || (!n && !room_take(room, sizeof before + sizeof after, pictures.names[i]))) continue;
        if (!n++) fputs(before, out);
        write_picture(out, room, r->folder, pictures.names[i]);
    }
    if (n) fputs(after, out);
    names_free(&pictures);
}

static void report_head(FILE *out, const Report *r, const char *text, const char *shown) {
    OWNED char *title = title_of(text, r->reports->names[r->at]);
    html_print(out, "<details class=\"report\"%s><summary>%s <small>%s</small></summary>\n", r->open ? " open" : "",
               title, shown);
}

/* Writes a report that has room: its title, the pictures that belong to it, then its text. */
static void write_report(FILE *out, Room *room, const Report *r) {
    Error error;
    Part head, body;
    const char *name = r->reports->names[r->at];
    OWNED char *shown = shown_name(r->folder, name), *text = read_in(r->folder, name, &error);
    bool shows = false;
    if (text) {
        part_begin(&head);
        part_begin(&body);
        report_head(head.out, r, text, shown);
        html_markdown(body.out, strncmp(text, "# ", 2) ? text : text + strcspn(text, "\n"), 2);
        fputs("</details>\n", body.out);
        part_end(&head);
        part_end(&body);
        shows = room_take(room, head.size + body.size, shown);
        if (shows) {
            fputs(head.text, out);
            write_pictures(out, room, r);
            fputs(body.text, out);
        }
        FREE(head.text, body.text);
    } else {
        room_leave_out(room, shown, error.text);
    }
    if (!shows) write_pictures(NULL, room, r);
}

int results_write(FILE *out, Room *room, const Folders *folders) {
    int n = 0;
    for (int f = 0; f < folders->n; f++) {
        Names reports = reports_of(&folders->items[f]);
        for (int r = 0; r < reports.n; r++, n++)
            write_report(out, room, &(Report){&folders->items[f], &reports, r, n < OPEN});
        names_free(&reports);
    }
    return n;
}

char *results_lead(const Folder *folder) {
    enum { LONGEST = 500 };
    Names reports = reports_of(folder);
    int first = reports.n && !strcmp(reports.names[0], "calibration.md"); /* it says how, not how well */
    char *text = reports.n > first ? read_in(folder, reports.names[first], NULL) : NULL, *lead = NULL;
    const char *at = text ? strstr(text, "\n\n") : NULL;
    size_t size = at ? strcspn(at + 2, "\n") : 0;
    if (size && !strchr("-|#", at[2]))
        lead = markdown_unescape(xformat("%.*s", (int)(size < LONGEST ? size : LONGEST), at + 2));
    free(text);
    names_free(&reports);
    return lead;
}

/* ---- sounds ---- */

static const char *const SOUNDS[] = {".wav", ".flac", ".ogg", ".mp3"};
enum { N_SOUNDS = sizeof SOUNDS / sizeof *SOUNDS };

static void write_player(FILE *out, const char *name, const char *type, const char *bytes, size_t size) {
    html_print(out,
               "<figure class=\"sound\"><figcaption>%s</figcaption><audio controls preload=\"none\" aria-label=\"%s\" "
               "src=\"",
               name, name);
    html_data_uri(out, type, bytes, size);
    fputs("\"></audio></figure>\n", out);
}

/* The sounds of a page so far. */
typedef struct {
    Room *room;
    int too_large; /* for what was left of the page */
    bool is_running;
} Sounds;

/* Returns whether a sound is worth the time to encode it: if it is likely to have room. False with the reason. */
static bool may_encode(const Sounds *s, Error *error) {
    enum { LEAST = 4000 /* bytes of a player */, MISSES = 4 };
    if (s->is_running) return error_set(error, "sounds are embedded when the run has ended");
    return (s->room->left >= LEAST && s->too_large < MISSES) || error_set(error, "no room is left for sounds");
}

/* Writes the player of a sound, if it is one and there is room; else lists it. */
static bool write_sound(FILE *out, Sounds *s, const Folder *folder, const char *name) {
    OWNED char *path = path_join(folder->path, name), *shown = shown_name(folder, name), *bytes = NULL;
    const char *type;
    size_t size;
    Error error;
    Part part;
    if (!may_encode(s, &error) || !sound_compress(path, &bytes, &size, &type, &error)) {
        room_leave_out(s->room, shown, error.text);
        return false;
    }
    part_begin(&part);
    write_player(part.out, name, type, bytes, size);
    bool fits = part_place(&part, s->room, out, shown);
    s->too_large += !fits;
    return fits;
}

int samples_write(FILE *out, Room *room, const Folders *folders, bool is_running) {
    Sounds sounds = {.room = room, .is_running = is_running};
    int n = 0;
    for (int f = 0; f < folders->n; f++) {
        const Folder *folder = &folders->items[f];
        if (!folder_has(folder, "samples")) continue;
        Folder samples = {.path = path_join(folder->path, "samples"), .name = shown_name(folder, "samples")};
        for (int k = 0; k < N_SOUNDS; k++) {
            Names names = names_of(&samples, SOUNDS[k]);
            for (int i = 0; i < names.n; i++) n += write_sound(out, &sounds, &samples, names.names[i]);
            names_free(&names);
        }
        FREE(samples.path, samples.name);
    }
    return n;
}
