#!/usr/bin/env python3
"""Compares tools/tokenize with the package `tokenizers`, which it needs.

    check_tokenizer.py TOOL TEXT [TOKENIZER...]

TOOL is build/release/tools/tokenize. Compared are, for each tokenizer.json and for those of
golden/tokenizers.json: the ids of all texts of tokenizer_texts.py, of every
character between letters, of the first 10,000 lines of TEXT, and of all of TEXT as one text; for byte-level ones also the texts
that the ids decode to. Then byte-level tokenizers are trained on TEXT by both: their merges are equal.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tokenizer_texts import NASTY, lines_of, ours, run, theirs, write_variants

WHOLE = 0x11938  # the package does not know its decomposition
CHARACTERS = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF and c != WHOLE]
CHARACTERS = [" ".join(f"a{c}b 1{c}!{c}" for c in CHARACTERS[i : i + 64]) for i in range(0, len(CHARACTERS), 64)]


def compare(tool, path, name, texts):
    tokenizer = Tokenizer.from_file(path)
    a, b = ours(tool, path, texts), theirs(tokenizer, texts)
    different = [i for i in range(len(texts)) if a[i] != b[i]]
    print(f"  {name}: {len(texts)} texts, {sum(map(len, b))} ids, {len(different)} different")
    for i in different[:5]:
        print(f"    {ascii(texts[i][:60])}: ours {a[i][:20]}, theirs {b[i][:20]}")
    if json.loads(tokenizer.to_str())["pre_tokenizer"].get("add_prefix_space") is False:
        back = run(tool, "texts", path, texts).split(b"\0")[:-1]
        wrong = sum(x != y.encode() for x, y in zip(back, texts))
        print(f"    decoded: {wrong} different")
        return len(different) + wrong
    return len(different)


def compare_training(tool, text, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines_of(text), trainer)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trained.json"
        subprocess.run([tool, "train", text, str(size), "2", path], check=True, stdout=subprocess.DEVNULL)
        a, b = json.loads(path.read_text()), json.loads(tokenizer.to_str())
        Tokenizer.from_file(str(path))
    same = [m if isinstance(m, str) else " ".join(m) for m in b["model"]["merges"]] == a["model"]["merges"]
    same = same and a["model"]["vocab"] == b["model"]["vocab"]
    print(f"training, {size} pieces: {'equal' if same else 'DIFFERENT'}")
    return not same


def main():
    tool, text, *paths = sys.argv[1:]
    lines = lines_of(text)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths + write_variants(folder):
            print(path)
            for name, texts in (("nasty", NASTY), ("characters", CHARACTERS), ("lines", lines[:10000]), ("whole", ["\n".join(lines)])):
                wrong += compare(tool, path, name, texts)
    wrong += sum(compare_training(tool, text, size) for size in (1000, 8000))
    sys.exit(wrong > 0)


main()
