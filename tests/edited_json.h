/* For tests of what a checkpoint's config.json and decision.json may say: copies of checkpoints with a field changed.
 */
#ifndef TESTS_EDITED_JSON_H
#define TESTS_EDITED_JSON_H

#include "tests/train_rig.h"

/* A change of a file, which is written without its checksum, as by hand. */
typedef struct {
    const char *file;   /* "config.json" */
    const char *object; /* the object that has the field; "": the whole */
    const char *field;
    const char *value;   /* JSON */
    const char *message; /* that is expected */
} JsonEdit;

/* Returns a copy of a checkpoint's folder with this change; free(). */
static inline char *edited_checkpoint(const char *checkpoint, const JsonEdit *edit) {
    char *folder = scratch_directory(), *path = path_join(folder, edit->file);
    must_run("cp -rL %s/. %s", checkpoint, folder);
    json_t *root = json_load_file(path, 0, NULL), *object = *edit->object ? json_object_get(root, edit->object) : root;
    if (!json_is_object(object)) fail_msg("%s: no object %s", path, edit->object);
    json_object_del(root, "xxh3_64");
    assert_int_equal(json_object_set_new(object, edit->field, json_loads(edit->value, JSON_DECODE_ANY, NULL)), 0);
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(17)), 0);
    json_decref(root);
    free(path);
    return folder;
}

#endif
