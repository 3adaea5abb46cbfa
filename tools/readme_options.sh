#!/usr/bin/env bash
# Puts the option tables of the programs into README.md: what stands between "<!-- options: PROGRAM -->" and
# "<!-- end -->" is replaced by $BUILD/PROGRAM --help-markdown. With --check it changes nothing and fails if the README is old.
set -eu
cd "$(dirname "$0")/.."
new=$(mktemp README.md.XXXXXX.tmp)
trap 'rm -f "$new"' EXIT
inside=
while IFS= read -r line; do
    if [[ $line =~ ^"<!-- options: "([a-z_]+)" -->"$ ]]; then
        inside=${BASH_REMATCH[1]}
        [ -x "$BUILD/$inside" ] || { echo "README.md: there is no program $BUILD/$inside; run make first" >&2; exit 1; }
        printf '%s\n\n' "$line"
        "$BUILD/$inside" --help-markdown || { echo "$BUILD/$inside --help-markdown failed" >&2; exit 1; }
        echo
    elif [ "$line" = "<!-- end -->" ] && [ -n "$inside" ]; then
        inside=
        printf '%s\n' "$line"
    elif [ -z "$inside" ]; then
        printf '%s\n' "$line"
    fi
done <README.md >"$new"
[ -z "$inside" ] || { echo "README.md: the table of $inside has no '<!-- end -->'" >&2; exit 1; }
cmp -s README.md "$new" && exit 0
[ "${1:-}" != --check ] || { echo "README.md: the option tables are old; run make readme" >&2; exit 1; }
cat "$new" >README.md
