#!/usr/bin/env bash
# The whole way on a few minutes of synthetic speech: sentences -> recordings -> codes -> a trained TTS GPT.
# `make demo` runs it. What was interrupted is resumed; what was finished is trained again.
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
step "Texts to ids, audio to codes" ./prepare_tts --input "$work/metadata.tsv" --output "$work" \
    --vocabulary 500 --codebook-size 256 --d-model 128 --val-ratio 0.1
step "Training" ./train_gpt -m "$work/manifest.jsonl" -b 8 -g 4 --config demo/demo.yaml \
    --output-dir "$work/run" --resume auto

clip=$(find "$work/codes" -name '*.npy' | sort | sed -n 1p) # which reads all: head would break the pipe
cat <<TXT

== Done
The loss curve is $work/run/loss.svg, the weights $work/run/best/model.safetensors. A model that knew only how often
each code occurs would stay at the unigram entropy above; how far below the validation loss lies is what was learned.
(Two voices read every sentence: the clips held out are unknown to the model, most of their texts are not.)
Hear what the codes keep: ./decode_tts --codes $clip --codebook $work/codebook.npy --output heard.wav
Your own recordings next: list them as in $work/metadata.tsv (id, speaker, audio file, text), then give that list to
./prepare_tts and its manifest to ./train_gpt; docs/train_gpt.md says how.
TXT
