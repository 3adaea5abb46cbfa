#include "base/text_file.h"

#include <stdlib.h>

#include "base/file.h"

void text_file_begin(TextFile *file) {
    file->out = open_memstream(&file->text, &file->size);
    if (!file->out) die("out of memory");
}

bool text_file_end(TextFile *file, const char *path, Error *error) {
    if (fclose(file->out)) die("out of memory for the text of %s", path);
    bool ok = file_write_atomic(path, file->text, file->size, error);
    free(file->text);
    return ok;
}
