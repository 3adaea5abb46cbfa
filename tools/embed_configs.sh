#!/usr/bin/env bash
# Prints configs/*.yaml as C, for --config NAME: tools/embed_configs.sh FILE...
# A file begins with a comment that has a command with these settings, ./train_x -..., which says what program they are for.
set -eu
printf '#include "base/options/built_in.h"\n\nconst BuiltInConfig built_in_configs[] = {\n'
for file in "$@"; do
    if ! sed '/^#/!q' "$file" | grep -qE '^#.*\./train_[a-z]+( [a-z]+)? -'; then
        echo "$file: expected a comment at the beginning with a command: ./train_x ... --config $file" >&2
        exit 1
    fi
    printf '    {"%s",\n' "$(basename "$file" .yaml)"
    sed 's/[\\"]/\\&/g; s/.*/     "&\\n"/; $s/$/},/' "$file"
done
printf '    {0}};\n'
