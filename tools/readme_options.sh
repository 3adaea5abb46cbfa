#!/usr/bin/env bash
# Updates the generated tables in README.md and docs/*.md. Replaces the lines between
# "<!-- options: PROGRAM [COMMAND] -->" and "<!-- end -->" by the output of $BUILD/PROGRAM COMMAND --help-markdown, and
# those after "<!-- presets -->" by a table of configs/gpu. With --check, changes nothing and fails if a page is outdated.
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

# Prints the page with its tables updated.
renew() {
    local page=$1 inside='' command line
    while IFS= read -r line; do
        if [[ $line =~ ^"<!-- options: "([a-z_]+)( [a-z]+)?" -->"$ ]]; then
            inside=${BASH_REMATCH[1]} command=${BASH_REMATCH[2]# }
            [ -x "$BUILD/$inside" ] || { echo "$page: the program $BUILD/$inside was not found; run make first" >&2; exit 1; }
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
    done <"$page"
    [ -z "$inside" ] || { echo "$page: the table of $inside has no '<!-- end -->'" >&2; exit 1; }
}

for page in README.md docs/*.md; do
    renew "$page" >"$new"
    cmp -s "$page" "$new" && continue
    [ "${1:-}" != --check ] || { echo "$page: the option tables are outdated; run make readme" >&2; exit 1; }
    cat "$new" >"$page"
done
