#!/usr/bin/env python3
"""Compares tools/tokenize with PhobertTokenizer of the package transformers, which it needs.

    check_fastbpe.py TOOL FOLDER [TEXT...]

TOOL is build/release/tools/tokenize; FOLDER holds vocab.txt and bpe.codes of PhoBERT. Compared are the ids, and the texts that
they decode to, of difficult texts, of every character alone and within a word, of 10,000 made-up lines, and of the lines of
each TEXT; and those of random files. Then files are learned from random lines and from each TEXT: they are those of the plain
definition. Last, lines per second of processor time, each with an empty cache.
"""
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from fastbpe_files import TEXTS, count_pieces, learn, random_files, reference, write
from tokenizer_texts import NASTY, lines_of, ours, run

PUBLISHED = {
    "Tôi là sinh viên trường đại học Công nghệ": [218, 8, 418, 1430, 212, 2919, 222, 3344, 5116],
    "Tôi là sinh_viên trường đại_học Công_nghệ": [218, 8, 649, 212, 956, 2413],
}
CHARACTERS = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
CHARACTERS = [" ".join(f"{c} a{c}b n{c}" for c in CHARACTERS[i : i + 64]) for i in range(0, len(CHARACTERS), 64)]
GLUE = ["", "", "", " ", " ", " ", "\n", "_", "  ", "\t", "\u00a0", "\u200b", ".", "@@", "</w>", "\U0001f600", "<s>", "\u0301"]


def made_up(pieces, n):
    """Lines of pieces, glued to words and broken by noise."""
    rng = random.Random(1)
    return ["".join(rng.choice(pieces).replace("@@", "") + rng.choice(GLUE) for _ in range(rng.randint(1, 25))) for _ in range(n)]


def compare(tool, folder, name, texts):
    tokenizer = reference(folder)
    a, b = ours(tool, folder, texts), tokenizer(texts, add_special_tokens=False)["input_ids"]
    decoded = run(tool, "texts", folder, texts).split(b"\0")[:-1]
    different = [i for i in range(len(texts)) if a[i] != b[i]]
    wrong = [i for i in range(len(texts)) if decoded[i].decode() != tokenizer.decode(b[i])]
    print(f"  {name}: {len(texts)} texts, {sum(map(len, b))} ids, {len(different)} different, {len(wrong)} decoded differently")
    for i in (different + wrong)[:5]:
        print(f"    {ascii(texts[i][:60])}: ours {a[i][:20]}, theirs {b[i][:20]}, {ascii(decoded[i][:60])}")
    return len(different) + len(wrong)


def compare_learning(tool, name, lines, merges):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "lines")
        path.write_text("\n".join(lines))
        subprocess.run([tool, "codes", path, str(merges), "3", folder], check=True, stdout=subprocess.DEVNULL)
        codes = learn(lines, merges, 2)
        same = lines_of(f"{folder}/bpe.codes")[:-1] == codes and lines_of(f"{folder}/vocab.txt")[:-1] == count_pieces(lines, codes)
    print(f"  learned from {name}, {merges} merges: {'equal' if same else 'DIFFERENT'}")
    return not same


def measure(tool, folder, lines):
    tokenizer = reference(folder)
    start = time.process_time()
    for line in lines:
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(line))
    theirs = time.process_time() - start
    with tempfile.NamedTemporaryFile() as file:
        file.write("\n".join(lines).encode())
        file.flush()
        opened, _, seconds = map(float, subprocess.run([tool, "time", folder, file.name], check=True, capture_output=True).stdout.split())
    n = len(lines)
    print(f"lines per second on one core: {n / seconds:,.0f}, transformers {n / theirs:,.0f}, ratio {theirs / seconds:.0f}; opened in {1e3 * opened:.0f} ms")


def main():
    tool, folder, *rest = sys.argv[1:]
    pieces = [line.rsplit(" ", 1)[0] for line in lines_of(f"{folder}/vocab.txt")[:-1]]
    wrong = sum(ours(tool, folder, [text])[0] != ids for text, ids in PUBLISHED.items())
    texts = [("difficult", NASTY + TEXTS), ("characters", CHARACTERS), ("made up", made_up(pieces, 10000))]
    for name, texts in texts + [(path, lines_of(path)) for path in rest]:
        wrong += compare(tool, folder, name, texts)
    for seed in range(60):
        with tempfile.TemporaryDirectory() as made:
            vocab, codes, texts = random_files(seed)
            write(made, vocab, codes)
            wrong += compare(tool, made, f"random files {seed}", texts)
    for seed in range(20):
        wrong += compare_learning(tool, f"random lines {seed}", random_files(seed)[2], 100)
    for path in rest:
        wrong += compare_learning(tool, path, lines_of(path), 1000)
    words = [piece for piece in pieces[:8000] if not piece.endswith("@@")]
    rng, weights = random.Random(2), [1 / (i + 3) for i in range(len(words))]
    measure(tool, folder, [" ".join(rng.choices(words, weights, k=12)) for _ in range(20000)])
    sys.exit(wrong > 0)


main()
