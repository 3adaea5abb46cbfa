#!/usr/bin/env bash
# Trains a small text GPT on the King James Bible (`make demo-slm`): text -> tokenizer and tokens -> trained model ->
# written passages. Compares its bits per byte of chapters it has not seen with those of xz and of n-grams.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/slm
run=$work/run

# shellcheck source=demo/bible.sh
. demo/bible.sh
step "Models that only count" ./train_slm baselines "$work/tokens" | tee "$work/baselines.log"
step "Training" ./train_slm --data "$work/tokens" --config demo/slm.yaml --output-dir "$run"
step "Chapters that it has not seen" ./train_slm evaluate --checkpoint "$run" "$work/held_out.txt" \
    --split-at blank-lines --output "$work/evaluation.csv"
step "Passages that it writes" ./train_slm generate --checkpoint "$run" --max-tokens 120 --prompt "In the beginning" \
    --prompt "And it came to pass in those days, that" --prompt "Blessed is the man"

bytes=$(wc -c <"$work/held_out.txt")
compressed() { cat "$@" | xz -9 -c | wc -c; }
alone=$(compressed "$work/held_out.txt")
behind=$(($(compressed "$work/train.txt" "$work/held_out.txt") - $(compressed "$work/train.txt")))
counted() { awk -v model="$1" '$1 == model { print $4 }' "$work/baselines.log"; }
model=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } END { print $at["bits_per_byte"] }' "$work/evaluation.csv")

printf '\n== Bits per byte of the held-out chapters\n'
awk -v n="$bytes" -v alone="$alone" -v behind="$behind" -v one="$(counted 1-grams)" -v three="$(counted 3-grams)" -v model="$model" '
    BEGIN {
        printf "%-42s %.4f\n", "xz -9", 8 * alone / n
        printf "%-42s %.4f\n", "xz -9, having read the training text", 8 * behind / n
        printf "%-42s %.4f\n", "1-grams of tokens", one
        printf "%-42s %.4f\n", "3-grams of tokens, with back-off", three
        printf "%-42s %.4f\n", "train_slm", model
    }'
cat <<TXT

The loss curve is $run/loss.svg, the whole report $run/report.html. To train on your own texts:
./train_slm prepare --input YOUR_TEXTS --output tokens, then ./train_slm --data tokens; see docs/train_slm.md.
TXT
awk "BEGIN { exit !($model < $(counted 1-grams)) }"
