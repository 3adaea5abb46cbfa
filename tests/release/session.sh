#!/bin/sh
# Uses every program as its users do, briefly, on the CPU: makes or reads data, trains for a few steps, resumes, and applies
# the model. A root that has only a C library and coreutils can run it.
#   session.sh PROGRAMS INPUT OUTPUT STOPPED
# INPUT has recordings and configurations. STOPPED is the OUTPUT of the session whose trainings are resumed, this one or
# another. All are absolute; what is written names no folder, so that sessions can be compared.
set -eu
programs=$1 input=$2 out=$3 stopped=$4
steps="--device cpu --max-steps 4 --save-interval 2 --keep-checkpoints 10"

# run PROGRAM ARGUMENT...: its output becomes a log, which is printed if it fails.
run() {
    program=$1
    shift
    "$programs/$program" "$@" >log 2>&1 || { echo "$program $*" && cat log && exit 1; }
}
# train RUN PROGRAM ARGUMENT...: estimates, trains, and trains again from the second step.
train() {
    to=$1
    shift
    run "$@" --estimate --gpu l4
    # shellcheck disable=SC2086
    run "$@" $steps -o "$to"
    # shellcheck disable=SC2086
    run "$@" $steps -o "${to}_resumed" --resume "$(find "$stopped/$to" -name step_00000002)"
}

mkdir -p "$out"
cd "$out"
for program in "$programs"/train_*; do
    run "${program##*/}" --version
done

run train_gpt prepare -i "$input/sounds/list.tsv" -o gpt_data --vocabulary 60 --codebook-size 64 --d-model 64 --val-ratio 0.2
train gpt train_gpt -m gpt_data/train_manifest.jsonl --val-manifest gpt_data/val_manifest.jsonl --model-dim 64 \
    --layers 2 --heads 2 --number-mel-codes 66 --max-text-tokens 60 --max-mel-tokens 100 -b 4 -g 1 --epochs 100 --warmup-steps 1
run train_gpt speak --checkpoint gpt --text "ዛሬ ጥሩ ቀን ነው" --output said.wav --max-codes 40 --iterations 5

run train_bert synthesize -o bert_data --train 200 --valid 60 --test 60 --unlabelled 400
run train_bert tokenizer --learn 300 bert_data/unlabelled.txt -o bert_tokenizer
train bert train_bert --data bert_data --tokenizer bert_tokenizer --layers 2 --d-model 64 --heads 2 --d-ff 128 \
    --max-len 64 -b 16
run train_bert predict --checkpoint bert bert_data/unlabelled.txt -o bert_predictions.csv

run train_slm prepare --input bert_data/unlabelled.txt --split-at line --vocabulary 400 --output slm_data
train slm train_slm --data slm_data --layers 2 --d-model 64 --heads 2 --context 64 -b 4 --optimizer muon
run train_slm generate --checkpoint slm --prompt "a" --max-tokens 20
grep -a -v '^\[' log >slm_generated

run train_psd synthesize -o psd_recordings --sensors 6 --rows 8
run train_psd prepare --input psd_recordings --output psd_data
train psd train_psd finetune -m psd_data/manifest.csv --split psd_data/splits/by_file_seed42_frac1.0.json \
    --config "$input"/psd_finetune.yaml -b 32
run train_psd predict --checkpoint psd psd_recordings -o psd_predictions.csv

run train_cv synthesize -o cells --cells 96 --bins 64 --side 11 --photons 0.3
train cv train_cv --config "$input"/cv.yaml --data cells --folds D1
run train_cv predict --checkpoint cv cells -o cells.csv
rm log
