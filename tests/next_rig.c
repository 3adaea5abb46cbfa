#include "tests/next_rig.h"

static const char *root;

const char *const next_names[NEXT_NAMES] = {"of two words", "it's \"here\"", "$HOME `ls` ;#&", "-o", "a\\b*"};

int next_open(void **state) {
    (void)state;
    int n;
    const char *const *names = program_names(&n);
    root = run_directory();
    for (int i = 0; i < n; i++) must_run("p=$(realpath %s); ln -s $p %s || cp $p %s", program_at(names[i]), root, root);
    return 0;
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
    return keep(xstrdup(from));
}

char *next_with(const char *command, const char *word, const char *name) {
    const char *at = strstr(command, word);
    if (!at) fail_msg("expected %s in %s", word, command);
    char *quoted = keep(shell_path(name)),
         *all = kept_format("%.*s%s%s", (int)(at - command), command, quoted, at + strlen(word));
    return all;
}

char *next_synthesize(const char *program, const char *options, const char *name) {
    char *quoted = keep(shell_word(name)),
         *command = kept_format("./%s synthesize --output=%s %s", program, quoted, options);
    return command;
}
