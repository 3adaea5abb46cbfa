#include "tests/estimate_rig.h"

char estimate_output[1 << 17];

void estimate_command(int status, bool only_stdout, const char *arguments) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    int got = run_command(estimate_output, sizeof estimate_output, "%s/%s%s", build, arguments,
                          only_stdout ? " 2>/dev/null" : "");
    if (got != status) fail_msg("%s: exit %d instead of %d: %s", arguments, got, status, estimate_output);
}

json_t *estimate_parsed(const char *arguments) {
    json_error_t error;
    char *line = kept_format("%s --estimate --json", arguments);
    estimate_command(0, true, line);
    json_t *root = json_loads(estimate_output, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", line, error.line, error.text);
    return root;
}

double estimate_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("the estimate has no number '%s'", key);
    return json_number_value(value);
}

const json_t *estimate_card(const json_t *root) { return json_array_get(json_object_get(root, "gpus"), 0); }

double estimate_of_op(const json_t *root, const char *name, const char *key) {
    size_t i;
    json_t *row;
    json_array_foreach(
        json_object_get(estimate_card(root), "operations"), i,
        row) if (!strcmp(json_string_value(json_object_get(row, "operation")), name)) return estimate_number(row, key);
    return 0;
}

void estimate_expect(const char *what, double got, double want) {
    if (got != want) fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

void estimate_expect_near(const char *what, double got, double want, double relative) {
    if (!(fabs(got - want) <= relative * fabs(want))) fail_msg("%s: got %.9g, want %.9g", what, got, want);
}

double attention_flops(double pairs, double d, double heads, bool dropout) {
    return pairs * (4 * d + (dropout ? 7 : 5) * heads);
}

bool estimate_fits(const char *arguments) {
    json_t *root = estimate_parsed(arguments);
    bool fits = json_is_true(json_object_get(estimate_card(root), "fits"));
    assert_true(fits == (estimate_number(json_object_get(root, "memory_bytes"), "total") <=
                         estimate_number(estimate_card(root), "available_bytes")));
    json_decref(root);
    return fits;
}

const char *estimate_change(const json_t *root, size_t i) {
    return json_string_value(json_array_get(json_object_get(estimate_card(root), "changes"), i));
}
