/* The folders of a run: its own and those within, which hold trainings and results. */
#pragma once

#include "base/base.h"

typedef struct {
    char *path, *name; /* name: as a page calls it, "fold_D1" */
    bool is_within;    /* found in another one */
    char *problem;     /* why it, or its log, cannot be read; NULL: it can */
} Folder;

/* In the order of their paths, each folder before those within. */
typedef struct {
    Folder *items;
    int n;
} Folders;

/* Adds a folder and those up to `depth` folders below it, but no checkpoints and no links. `name` precedes the names of
 * those within; "": the folder is the only one. Fails if it cannot be read; a folder within has a `problem` then. */
bool folders_add(Folders *folders, const char *path, const char *name, int depth, Error *error);
void folders_free(Folders *folders);
/* Returns whether a folder has this file. */
bool folder_has(const Folder *folder, const char *file);
/* Returns the names of the folder's files that end in `end`, sorted and separated by '\n'; free(). */
char *folder_files(const Folder *folder, const char *end);
