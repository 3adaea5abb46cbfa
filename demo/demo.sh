#!/usr/bin/env bash
# Trains a TTS GPT on 37 minutes of synthetic speech (`make demo`): sentences -> recordings -> codes -> trained model.
# Resumes a run that was interrupted; starts again if the last run was finished.
set -euo pipefail
cd "$(dirname "$0")/.."
work=demo/work

# step TITLE COMMAND...
step() {
    printf '\n== %s\n$ %s\n' "$1" "${*:2}"
    "${@:2}"
}

[ -e "$work/run/loss.svg" ] && rm -rf "$work/run"
step "The speech synthesiser reads $(wc -l <demo/sentences.txt) Amharic sentences in four voices" demo/synthesise.sh "$work"
step "Texts become ids, audio becomes codes" ./train_gpt prepare --input "$work/metadata.tsv" --output "$work" \
    --vocabulary 500 --codebook-size 256 --d-model 128 --val-ratio 0.1
step "Training" ./train_gpt -m "$work/manifest.jsonl" -b 8 -g 4 --config demo/demo.yaml \
    --output-dir "$work/run" --resume auto
step "The trained model says a sentence in the voice of a clip that it has not seen" ./train_gpt speak \
    --checkpoint "$work/run" --text "$(sed -n 1p demo/sentences.txt)" --manifest "$work/val_manifest.jsonl" \
    --output "$work/said.wav"

clip=$(find "$work/codes" -name '*.npy' | sort | sed -n 1p) # sed reads all lines; head would break the pipe
cat <<TXT

== Done
The loss curve is $work/run/loss.svg, all curves are in curves.svg beside it, the weights in
$work/run/best/model.safetensors. A model that knew only how often each code occurs would stay at the unigram entropy above. The validation loss is lower: the difference was learned.
(Two voices read every sentence. The model has not seen the validation clips, but has seen most of their texts.)
What the model says is $work/said.wav; 37 minutes of speech teach it the sound of a voice, hardly any words.
To hear what the codes keep of a clip: ./train_gpt decode --codes $clip --codebook $work/codebook.npy --output heard.wav
To train on your own recordings: list them as in $work/metadata.tsv (id, speaker, audio file, text), give that list to
./train_gpt prepare, and the manifest that it writes to ./train_gpt; see docs/train_gpt.md.
TXT
