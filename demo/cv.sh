#!/usr/bin/env bash
# The whole way for FLIM cells: made-up cells of six donors -> what is odd about them -> six folds, each tested on a donor
# that its network has not seen, beside the trivial answers; and cells whose brightness gives their class away, which is
# said. `make demo-cv` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work/cv
run=$work/run

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

rm -rf "$work"
shape=(--cells 900 --bins 64 --side 11 --photons 0.3)
step "Cells of six donors, who differ in everything but biology" ./prepare_flim --synthetic "$work/cells" "${shape[@]}"
step "What is odd about them" ./prepare_flim --input "$work/cells"
step "Six folds: each donor in turn is tested on, the next one validates, four train" \
    ./train_cv --config demo/cv.yaml --data "$work/cells" -o "$run"

step "Cells whose brightness gives their class away" ./prepare_flim --synthetic "$work/bright" "${shape[@]}" \
    --confound-brightness 1
step "The doctor's word on them" ./prepare_flim --input "$work/bright" | tee "$work/bright.log"

printf '\n== The donor that was left out: balanced accuracy and AUROC\nfold  network        best baseline\n'
wins=0
folds=0
for scores in "$run"/scores_D*.csv; do
    fold=$(basename "$scores" .csv)
    read -r network best area best_area < <(awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $1 == "network" { network = $at["balanced_accuracy"]; area = $at["auroc"] }
        $1 ~ /network/ { next }
        $at["balanced_accuracy"] > best { best = $at["balanced_accuracy"] }
        $at["auroc"] > best_area { best_area = $at["auroc"] }
        END { printf "%.4f %.4f %.4f %.4f\n", network, best, area, best_area }' "$scores")
    printf '%-4s  %s %s  %s %s\n' "${fold#scores_}" "$network" "$area" "$best" "$best_area"
    folds=$((folds + 1))
    if awk "BEGIN { exit !($network > $best && $area > $best_area) }"; then wins=$((wins + 1)); fi
done
warnings=$(grep -c 'warning: brightness' "$work/bright.log" || true)
cat <<TXT

The network beat every baseline by both scores on $wins of $folds donors. Of the cells whose brightness gives their class away
the doctor gave $warnings warnings. Tables and diagrams: $run. Your own cells next: ./prepare_flim --input DIR, then ./train_cv --data DIR;
docs/train_cv.md says how.
TXT
[ "$wins" -eq 6 ] && [ "$folds" -eq 6 ] && [ "$warnings" -gt 0 ]
