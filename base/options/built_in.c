#include "base/options/built_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

const char *built_in_config(const char *name) {
    for (const BuiltInConfig *c = built_in_configs; c->name; c++)
        if (!strcmp(c->name, name)) return access(name, F_OK) ? c->text : NULL;
    return NULL;
}

bool built_in_is_for(const char *text, const char *program) {
    OWNED char *command = xformat("./%s -", program);
    return strstr(text, command) != NULL;
}

/* Prints the comment at the beginning up to the first colon or full stop. */
static void print_purpose(const char *text) {
    for (const char *at = text; *at; at++) {
        if ((*at == ':' || *at == '.') && strchr(" \n", at[1])) break;
        if (*at == '#')
            at += at[1] == ' ';
        else
            putchar(*at == '\n' ? ' ' : *at);
    }
    putchar('\n');
}

void built_in_print(const char *program) {
    int n = 0;
    for (const BuiltInConfig *c = built_in_configs; c->name; c++) {
        if (!built_in_is_for(c->text, program)) continue;
        n++;
        printf("%-22s ", c->name);
        print_purpose(c->text);
    }
    if (!n) printf("no settings for %s are in the program; --config PATH reads a file\n", program);
}

const char *built_in_nearest(const char *name, const char *program) {
    enum { MOST = 100 };
    const char *names[MOST];
    int n = 0;
    for (const BuiltInConfig *c = built_in_configs; c->name && n < MOST; c++)
        if (built_in_is_for(c->text, program)) names[n++] = c->name;
    return nearest_name(name, names, n);
}
