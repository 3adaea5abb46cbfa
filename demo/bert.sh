#!/usr/bin/env bash
# Trains classifiers of Vietnamese comments (`make demo-bert`): synthetic comments -> codes -> an encoder pretrained on
# masked words -> classifiers with and without it, tested on sentence patterns unseen in training.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/bert

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

# Prints a column of a CSV file that has one row below its header: column FILE NAME.
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }' "$1"; }

rm -rf "$work"
step "Comments, polite and rude" ./train_bert synthesize -o "$work/comments"
step "What simple classifiers reach" ./train_bert baselines "$work/comments" | tee "$work/baselines.log"
step "Codes and vocabulary" ./train_bert tokenizer --learn 1000 "$work/comments/unlabelled.txt" -o "$work/tokenizer"
step "Pretraining: guess masked pieces of unlabelled comments" ./train_bert pretrain \
    --data "$work/comments/unlabelled.txt" --tokenizer "$work/tokenizer" --config demo/bert_pretrain.yaml \
    -o "$work/pretrained"
step "A classifier from scratch" ./train_bert --data "$work/comments" --tokenizer "$work/tokenizer" \
    --config demo/bert_finetune.yaml -o "$work/scratch"
step "A classifier from the pretrained encoder" ./train_bert --data "$work/comments" \
    --base-checkpoint "$work/pretrained/best" --config demo/bert_finetune.yaml -o "$work/finetuned"
cat >"$work/new.txt" <<TXT
Bạn giỏi thật, cảm ơn nhé
ban ngu that
ai bảo bạn ngu, sai rồi
đâu phải anh thông minh nhất lớp
tưởng bác lười, ai ngờ bác chăm chỉ quá
tưởng bác chăm chỉ, ai ngờ bác lười quá
Mình dốt quá, nhờ mọi người chỉ giúp 🙏
TXT
step "Comments of your own" ./train_bert predict --checkpoint "$work/finetuned" "$work/new.txt" -o -

words=$(awk '$1 == "words" && $2 != "and" { print $3 }' "$work/baselines.log")
pairs=$(awk '$1 == "words" && $2 == "and" { print $5 }' "$work/baselines.log")
scratch=$(column "$work/scratch/evaluation_test.csv" macro_f1)
finetuned=$(column "$work/finetuned/evaluation_test.csv" macro_f1)
printf '\n== Macro F1 on comments with unseen patterns and words\n'
printf '%-28s %.4f\n' "the most frequent class" "$(awk '$1 == "majority" { print $3 }' "$work/baselines.log")" \
    "counts of words" "$words" "counts of words and pairs" "$pairs" "train_bert, from scratch" "$scratch" \
    "train_bert, pretrained" "$finetuned"
cat <<TXT

The report of the pretrained classifier is $work/finetuned/report.html. To classify your own texts: write them as
train.csv with the columns text and label, then ./train_bert --data train.csv --base-checkpoint phobert-base-v2; see
docs/train_bert.md.
TXT
awk "BEGIN { exit !($finetuned > $scratch && $finetuned > $words && $finetuned > $pairs) }"
