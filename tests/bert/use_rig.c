#include "tests/bert/use_rig.h"

int bert_use(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run_program(fixture.output, sizeof fixture.output, "train_bert", format, arguments);
    va_end(arguments);
    return status;
}

void bert_must_use(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int status = run_program(fixture.output, sizeof fixture.output, "train_bert", format, arguments);
    va_end(arguments);
    if (status) fail_msg("%s: exit status %d:\n%s", format, status, fixture.output);
}

const char *bert_path(const char *name) {
    static const char *root;
    if (!root) root = run_directory();
    return kept_path(root, name);
}

const char *bert_trained(void) {
    static const char *run;
    if (run) return run;
    const char *noisy = bert_path("noisy");
    run = bert_path("run");
    must_run("mkdir %s && cp %s/*.csv %s && sed -i -e '3~8s/0$/9/;3~8s/1$/0/;3~8s/9$/1/' %s/*.csv", noisy, fixture.data,
             noisy, noisy);
    bert_must_use("--data %s %s --epochs 16 --patience 0 -o %s", noisy, fixture.options, run);
    return run;
}

json_t *bert_read_lines(const char *path) {
    char *text = kept_text(path);
    json_t *rows = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *row = json_loads(line, 0, NULL);
        if (!row) fail_msg("%s: %s", path, line);
        json_array_append_new(rows, row);
    }
    return rows;
}

double bert_number(const json_t *rows, size_t row, const char *key) {
    const json_t *value = json_object_get(json_array_get(rows, row), key);
    if (!json_is_number(value)) fail_msg("row %zu has no number %s", row, key);
    return json_number_value(value);
}
