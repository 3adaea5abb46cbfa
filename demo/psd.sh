#!/usr/bin/env bash
# Trains classifiers of power spectra (`make demo-psd`): synthetic recordings -> manifest, splits and samples -> a
# pretrained encoder -> classifiers with and without it, three seeds each, tested on files unseen in training.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/psd
split=$work/data/splits/by_file_seed42_frac1.0.json
common=(-m "$work/data/manifest.csv" --split "$split")

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

# Prints a column of a CSV file that has one row below its header: column FILE NAME.
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }' "$1"; }

rm -rf "$work"
step "Recordings of six technologies by twelve sensors" ./train_psd synthesize -o "$work/raw" --sensors 12 --rows 64
step "Manifest, splits and samples" ./train_psd prepare --input "$work/raw" --output "$work/data"
step "Pretraining: reconstruct masked patches; match spectra of one class from two sensors" \
    ./train_psd pretrain "${common[@]}" --config demo/psd_pretrain.yaml -o "$work/pretrain"

for seed in 1 2 3; do
    for start in scratch pretrained; do
        from=()
        [ "$start" = scratch ] || from=(--pretrained "$work/pretrain/best")
        run=$work/${start}_$seed
        step "A classifier, $start, seed $seed" ./train_psd finetune "${common[@]}" --config demo/psd_finetune.yaml \
            --seed "$seed" -o "$run" "${from[@]}"
        ./train_psd evaluate "${common[@]}" --checkpoint "$run/best" -o "$run/test" --tag test >"$run/test.log"
    done
done
step "Calibrated probabilities" ./train_psd calibrate "${common[@]}" --checkpoint "$work/pretrained_1/best" \
    -o "$work/calibration"

printf '\n== Masked patches: squared error on the validation files\n'
errors=$(sed -n 's/.*"kind": *"val".*"val\/mae_loss": *\([0-9.]*\).*/\1/p' "$work/pretrain/log.jsonl" | sed -n '1p;$p' | xargs)
echo "after the first epoch ${errors%% *}, after the last epoch ${errors##* }"
printf '\n== Macro F1 on the test files, after three epochs\nseed  scratch  pretrained\n'
wins=0
for seed in 1 2 3; do
    scratch=$(column "$work/scratch_$seed/test/by_file_test.csv" macro_f1)
    pretrained=$(column "$work/pretrained_$seed/test/by_file_test.csv" macro_f1)
    printf '%4s   %.4f      %.4f\n' "$seed" "$scratch" "$pretrained"
    if awk "BEGIN { exit !($pretrained > $scratch) }"; then wins=$((wins + 1)); fi
done
cat <<TXT

The pretrained encoder was better with $wins of 3 seeds. (As in the published method, its contrastive loss pairs spectra
of one class from two sensors. So pretraining has seen which training spectra belong together.) Plots and tables:
$work/pretrained_1/test, $work/calibration. To train on your own recordings: ./train_psd prepare --input DIR, then
./train_psd run; see docs/train_psd.md.
TXT
[ "$wins" -eq 3 ] && awk -v a="${errors%% *}" -v b="${errors##* }" 'BEGIN { exit !(b < a) }'
