# shellcheck shell=bash
# Makes tokens of the King James Bible in $work/tokens. The demos of the text GPT source it.

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

# Writes each chapter as a document: its verses as lines, and a blank line behind them. Every 20th chapter is held out.
chapters() {
    mkdir -p "${work:?}"
    bible -f gen1:1-rev22:21 | awk -v train="$work/train.txt" -v held_out="$work/held_out.txt" '
        {
            chapter = $1
            sub(/:.*/, "", chapter)
            if (chapter != previous) {
                if (NR > 1) printf "\n" >file
                file = ++n % 20 ? train : held_out
            }
            previous = chapter
            sub(/^[^ ]* /, "")
            print >file
        }
        END { printf "%d chapters, of which %d are held out\n", n, int(n / 20) }'
}

rm -rf "$work"
step "The King James Bible, a document per chapter" chapters
step "Text becomes tokens" ./train_slm prepare --input "$work/train.txt" --val-file "$work/held_out.txt" \
    --split-at blank-lines --vocabulary 2048 --output "$work/tokens"
