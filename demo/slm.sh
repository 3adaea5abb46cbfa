#!/usr/bin/env bash
# Trains a small text GPT on the King James Bible (`make demo-slm`): text -> tokenizer and tokens -> trained model ->
# written passages. Ends with the bits per byte of chapters it has never seen, beside those of xz and of n-grams.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/slm

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

# Writes each chapter as a document, its verses as lines, a blank line behind it. Every 20th chapter is held out.
chapters() {
    mkdir -p "$work"
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
step "The King James Bible: a document per chapter" chapters
step "Text becomes tokens" ./train_slm prepare --input "$work/train.txt" --val-file "$work/held_out.txt" \
    --split-at blank-lines --vocabulary 2048 --output "$work/tokens"
step "Training" ./train_slm --data "$work/tokens" --config demo/slm.yaml --output-dir "$work/run"
step "What models that only count reach" ./train_slm baselines "$work/tokens" | tee "$work/baselines.log"
