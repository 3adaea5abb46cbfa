#include "tests/edited_json.h"

/* Returns a copy of a checkpoint's folder with this change of a file. */
static char *edited_checkpoint(const char *checkpoint, const char *file, const JsonEdit *edit) {
    char *folder = kept_folder(), *path = kept_path(folder, file);
    must_run("cp -rL %s/. %s", checkpoint, folder);
    json_t *root = json_load_file(path, 0, NULL), *object = root,
           *value = edit->value ? json_loads(edit->value, JSON_DECODE_ANY, NULL) : NULL;
    if (edit->object && *edit->object) object = json_object_get(root, edit->object);
    if (!json_is_object(object)) fail_msg("%s: no object %s", path, edit->object);
    json_object_del(root, "xxh3_64");
    if (!edit->object) {
        json_decref(root);
        root = value;
    } else {
        assert_int_equal(value ? json_object_set_new(object, edit->field, value) : json_object_del(object, edit->field),
                         0);
    }
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(17)), 0);
    json_decref(root);
    return folder;
}

static void use_edited(const char *checkpoint, const char *file, const JsonEdit *edits, size_t n, EditUse *use) {
    char *followed = keep(follow_link(checkpoint));
    for (size_t i = 0; i < n; i++) {
        char *edited = edited_checkpoint(followed, file, &edits[i]);
        use(edited, &edits[i]);
    }
}

void assert_edit_refused(int status, const JsonEdit *edit) {
    if (status != 1) fail_msg("%s %s: exit status %d:\n%s", edit->field, edit->value, status, fixture.output);
    assert_contains(fixture.output, edit->message);
}

void refuse_config_edits(const char *checkpoint, const char *model, const JsonEdit *edits, size_t n, EditUse *use) {
    char *named = kept_format("\"model\": expected %s (another name is a checkpoint of another model), found ", model);
    const JsonEdit all[] = {
        {NULL, "all", "[]", "config.json: expected an object {...}"},
        {NULL, "all", "{}", "\"format\": expected 1, found nothing"},
        {"", "format", NULL, "\"format\": expected 1, found nothing"},
        {"", "format", "2", "\"format\": expected 1, found 2"},
        {"", "version", "2", "\"version\": expected a text, found 2"},
        {"", "parameters", "\"many\"",
         "\"parameters\": expected a whole number from 1 to 9223372036854775807, found \"many\""},
        {"", "parameters", "0", "\"parameters\": expected a whole number from 1 to "},
        {"", "model", "7", kept_format("%s7", named)},
        {"", "model", "\"\"", kept_format("%s\"\"", named)},
        {"", "model", kept_format("\"%sx\"", model), named},
        {"", "model", NULL, kept_format("\"model\": expected %s ", model)},
        {"", "options", "[]", "\"options\": expected an object, found []"},
    };
    use_edited(checkpoint, "config.json", all, sizeof all / sizeof *all, use);
    use_edited(checkpoint, "config.json", edits, n, use);
}

void refuse_decision_edits(const char *checkpoint, const JsonEdit *edits, size_t n, EditUse *use) {
    static const JsonEdit all[] = {
        {NULL, "all", "[]", "decision.json: expected an object {...}"},
        {NULL, "all", "{}", "\"format\": expected 1, found nothing"},
        {"", "format", NULL, "\"format\": expected 1, found nothing"},
        {"", "format", "\"1\"", "\"format\": expected 1, found \"1\""},
        {"", "version", "[]", "\"version\": expected a text, found []"},
        {"", "weights", "7", "it was made for other weights (?)"},
    };
    use_edited(checkpoint, "decision.json", all, sizeof all / sizeof *all, use);
    use_edited(checkpoint, "decision.json", edits, n, use);
}
