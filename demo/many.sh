#!/usr/bin/env bash
# Trains a small text GPT on one rank and on two over MPI (`make demo-many`), with the same steps, and compares the losses.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/many
# shellcheck source=demo/bible.sh
. demo/bible.sh
options=(--data "$work/tokens" --layers 2 --d-model 128 --heads 4 --context 128 --dropout 0.1 --learning-rate 1e-3
    --warmup-steps 20 --max-steps 100 --log-interval 1 -b 4)
step "One rank, four micro-batches a step" ./train_slm "${options[@]}" -g 4 -o "$work/one"
step "Two ranks, two micro-batches each" tools/run_mpi.sh 2 ./train_slm "${options[@]}" -g 2 -o "$work/two"

losses() { sed -n 's/.*"train\/loss": *\([0-9.]*\).*/\1/p' "$work/$1/log.jsonl"; }
printf '\n== Losses\n'
paste <(losses one) <(losses two) | awk '
    {
        difference = ($1 > $2 ? $1 - $2 : $2 - $1) / $1
        if (difference > most) most = difference
    }
    END {
        printf "the last of one rank %.7f, of two ranks %.7f; they differ by at most %.1e in all %d steps\n", $1, $2, most, NR
        exit !(NR == 100 && most <= 1e-5)
    }'
