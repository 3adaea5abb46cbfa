#!/usr/bin/env bash
# Puts the option tables of the programs into README.md: what stands between "<!-- options: PROGRAM [COMMAND] -->"
# and "<!-- end -->" is replaced by $BUILD/PROGRAM COMMAND --help-markdown; and the table of configs/gpu, "<!-- presets -->". With --check
# it changes nothing and fails if the README is old.
set -eu
cd "$(dirname "$0")/.."
new=$(mktemp README.md.XXXXXX.tmp)
trap 'rm -f "$new"' EXIT
presets() {
    # shellcheck disable=SC2016 # backquotes of Markdown
    echo '| `GPU=` | card | architecture | 16-bit type | `-b` | `-g` | `--num-workers` |'
    echo '|---|---|---|---|---|---|---|'
    local file
    for file in configs/gpu/*.mk; do
        awk -v name="$(basename "$file" .mk)" '
            /^#/ { card = substr($0, 3) }
            / = / { value[$1] = $3 }
            END { printf "| `%s` | %s | sm_%s | %s | %s | %s | %s |\n", name, card, value["GPU_ARCHITECTURES"],
                  tolower(value["GPU_HALF"]), value["GPU_BATCH"], value["GPU_ACCUMULATION"], value["GPU_WORKERS"] }' "$file"
    done
}

inside=
while IFS= read -r line; do
    if [[ $line =~ ^"<!-- options: "([a-z_]+)( [a-z]+)?" -->"$ ]]; then
        inside=${BASH_REMATCH[1]} command=${BASH_REMATCH[2]# }
        [ -x "$BUILD/$inside" ] || { echo "README.md: there is no program $BUILD/$inside; run make first" >&2; exit 1; }
        printf '%s\n\n' "$line"
        "$BUILD/$inside" ${command:+"$command"} --help-markdown || { echo "$BUILD/$inside --help-markdown failed" >&2; exit 1; }
        echo
    elif [ "$line" = "<!-- presets -->" ]; then
        inside=presets
        printf '%s\n\n' "$line"
        presets
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
