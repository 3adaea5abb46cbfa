#include "tests/next_rig.h"

static const char *root;

const char *const next_names[NEXT_NAMES] = {"of two words", "it's \"here\"", "$HOME `ls` ;#&", "-o", "a\\b*"};

void next_open(void) {
    int n;
    const char *const *names = program_names(&n);
    root = run_directory();
    for (int i = 0; i < n; i++) must_run("p=$(realpath %s); ln -s $p %s || cp $p %s", program_at(names[i]), root, root);
}

void next_must_run(const char *what, const char *command) {
    int status = run_command(fixture.output, sizeof fixture.output, "cd %s && %s", root, command);
    if (status) fail_msg("%s: %s\nexit status %d:\n%s", what, command, status, fixture.output);
}

char *next_command(const char *program) {
    char *line = strstr(fixture.output, "Next: "), *from;
    if (!line) fail_msg("expected a line 'Next: ' in %s", fixture.output);
    line[strcspn(line, "\n")] = 0;
    if (!(from = strstr(line, program))) fail_msg("expected a command of %s in %s", program, line);
    return xstrdup(from);
}

char *next_with(const char *command, const char *word, const char *name) {
    const char *at = strstr(command, word);
    if (!at) fail_msg("expected %s in %s", word, command);
    char *quoted = shell_path(name),
         *all = xformat("%.*s%s%s", (int)(at - command), command, quoted, at + strlen(word));
    free(quoted);
    return all;
}

char *next_synthesize(const char *program, const char *options, const char *name) {
    char *quoted = shell_word(name), *command = xformat("./%s synthesize --output=%s %s", program, quoted, options);
    free(quoted);
    return command;
}
