#!/usr/bin/env bash
# Makes the recordings of the demo: a speech synthesiser reads the sentences in four voices, the "speakers".
#   demo/synthesise.sh OUTDIR
# Writes OUTDIR/audio/SPEAKER_NNN.wav and OUTDIR/metadata.tsv with one line per clip: id, speaker, audio file, text.
# Two speakers read every sentence, so that speakers differ in what they say but share texts.
# A clip gets its final name only when it is complete, and FILE.wav.said records what was spoken. So a run that was
# stopped continues where it was, and an edited sentence or voice is spoken again.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: demo/synthesise.sh OUTDIR" >&2; exit 2; }
sentences=$(dirname "$0")/sentences.txt
output=$1
speakers=(alemu bekele chaltu desta)
voices=("-s 165 -p 38" "-s 145 -p 22" "-s 175 -p 75" "-s 155 -p 60") # words per minute; pitch from 0 to 99

command -v espeak-ng >/dev/null || { echo "espeak-ng is missing: apt install espeak-ng" >&2; exit 1; }
espeak-ng --voices=am | grep -q ' am ' || { echo "espeak-ng has no Amharic voice (am): install a version that has it" >&2; exit 1; }
mkdir -p "$output/audio"

# speak FILE TEXT OPTION...
speak() {
    local file=$1 text=$2
    shift 2
    [ -s "$file" ] && [ "$(cat "$file.said" 2>/dev/null)" = "$* -- $text" ] && return
    rm -f "$file.said"
    espeak-ng -v am "$@" -w "$file.tmp" -- "$text" && mv "$file.tmp" "$file" && echo "$* -- $text" >"$file.said"
}
export -f speak

number=0
list=$output/metadata.tsv
jobs=$(mktemp)
trap 'rm -f "$jobs" "$list.tmp"' EXIT
: >"$list.tmp"
while IFS= read -r text; do
    number=$((number + 1))
    for which in $((number % 4)) $(((number + 1 + number / 4 % 3) % 4)); do
        id=$(printf '%s_%03d' "${speakers[which]}" "$number")
        printf '%s\t%s\taudio/%s.wav\t%s\n' "$id" "${speakers[which]}" "$id" "$text" >>"$list.tmp"
        printf '%s\0%s\0%s\0' "$output/audio/$id.wav" "$text" "${voices[which]}" >>"$jobs"
    done
done <"$sentences"
# shellcheck disable=SC2016 # the inner shell expands its arguments; $3 is unquoted to become several options
xargs -0 -n 3 -P "$(nproc)" bash -c 'speak "$1" "$2" $3' speak <"$jobs"
mv "$list.tmp" "$list"
echo "$(wc -l <"$list") clips of $number sentences by ${#speakers[@]} speakers: $list"
