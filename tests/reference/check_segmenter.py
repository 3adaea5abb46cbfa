#!/usr/bin/env python3
"""Compares `train_bert segment` with RDRsegmenter, and their speed.

    check_segmenter.py PROGRAM FOLDER [SEED [LINES]]

FOLDER holds Model.RDR and VnVocab, the lists that make_segment_lists.py reads, and the program's answers to
golden_raw.txt (golden_segmented.txt, golden_sentences.txt, golden_pretokenized.txt, golden_tokens.txt), to which the
answers must be equal. Then random lines, put together from all that the model knows, go through the Java program too
(see rdrsegmenter.py); last, both are timed on one thread, in processor seconds.
"""
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

import rdrsegmenter

PROGRAM, FOLDER = sys.argv[1:3]
SEED, LINES = int((sys.argv[3:] or [1])[0]), int((sys.argv[4:] or [20000])[0])
GOLDEN = {"line": "segmented", "sentences": "sentences", "tokenized": "pretokenized", "tokens": "tokens"}
SIGNS = list(".,:;!?()[]{}\"'/-_…“”‘’|*&%$€+=<>@#~^·«»–") + """... .. '' đ 5 2,5 1/2 12/2018 31/12/2000 http://a.vn/x
    www.b.com x@y.com 12h30 0912.345.678 (+84)912345678 LBKT RBKT 😀 𝐀""".split() + ["\ufeff", "\u00a0", "\1", "\u0085"]


def read(name):
    with open(f"{FOLDER}/{name}", encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


def ours(mode, lines):
    """Returns the answers; those of mode sentences one by one, since blank lines have none."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        out = subprocess.run([PROGRAM, "segment", "--model", FOLDER, "--mode", mode, file.name], check=True, capture_output=True)
    return out.stdout.decode().split("\n")[:-1]


def compare(name, want, got, inputs=None):
    different = [i for i in range(max(len(want), len(got))) if want[i:i + 1] != got[i:i + 1]]
    print(f"{name}: {len(want)} lines, {len(different)} differ")
    for i in different[:5]:
        print("\n".join(f"  {label} {text[i:i + 1]!r}" for label, text in (("in  ", inputs or []), ("want", want), ("got ", got))))
    return len(different)


def flat(lines):
    return [sentence for line in lines if line for sentence in line.split("\n")]


def check_golden():
    raw, bad = read("golden_raw.txt"), 0
    for mode, name in GOLDEN.items():
        want = read(f"golden_{name}.txt")
        want = flat([line.replace("\t", "\n") for line in want]) if mode == "sentences" else want
        bad += compare(f"golden_{name}.txt", want, ours(mode, raw))
    return bad


def random_lines():
    rng = random.Random(SEED)
    words = [word for line in read("golden_raw.txt") for word in line.split(" ") if word]
    names = [line.split("\t")[1] for name in ("names", "abbreviations", "exceptions") for line in read(f"{name}.tsv")]
    rules = [value for line in read("Model.RDR") for value in re.findall('== "([^"]+)"', line)]
    with open(f"{FOLDER}/VnVocab", "rb") as file:
        vocabulary = [word.decode() for word in re.findall(rb"t\0[\x01-\x40]((?:[^\0-\x1F])+?)(?=[tx]\0|x$)", file.read())]

    def piece():
        kind = rng.random()
        for limit, source in ((0.35, words), (0.5, vocabulary), (0.62, names), (0.75, rules), (0.9, SIGNS)):
            if kind < limit:
                return rng.choice(source)
        word = rng.choice(words)
        at = rng.randrange(len(word) + 1)
        return word[:at] + rng.choice(SIGNS) + word[at:]

    def cased(text):
        return rng.choice([str, str, str, str.title, str.upper, str.capitalize])(text)

    def line():
        pieces = (cased(piece()) + (" " if rng.random() < 0.8 else rng.choice(["", "", "  ", "\t"]))
                  for _ in range(rng.randint(1, rng.choice([3, 8, 20]))))
        return re.sub("[\r\n]", "", "".join(pieces))

    return [line() for _ in range(LINES)]


def check_random():
    java, lines, bad = rdrsegmenter.Segmenter(FOLDER), random_lines(), 0
    # What is known to differ: see rdrsegmenter.py.
    lines = [line for line in lines if "tập cận bình" not in line.lower() and ".org." not in line]
    for mode in rdrsegmenter.MODES:
        want = [java.run(mode, line) for line in lines]
        bad += compare(f"random lines, {mode}", flat(want) if mode == "sentences" else want, ours(mode, lines), lines)
    return bad


def time_both():
    """Times raw lines of news: Java when it is warm, the program with reading and writing."""
    lines, java = read("golden_raw.txt")[:650], rdrsegmenter.Segmenter(FOLDER)
    tokens = sum(len(java.tokenizer.tokenize(line)) for line in lines)
    for _ in range(20):
        start = time.process_time()
        for line in lines:
            java.run("line", line)
        seconds = time.process_time() - start
    print(f"Java: {len(lines) / seconds:.0f} lines, {tokens / seconds:.0f} tokens per second")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write("".join(line + "\n" for line in lines) * 100)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([PROGRAM, "segment", "--threads", "1", "--model", FOLDER, file.name], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"ours: {100 * len(lines) / own:.0f} lines, {100 * tokens / own:.0f} tokens per second, ratio {seconds * 100 / own:.1f}")


rdrsegmenter.start()
wrong = check_golden() + check_random()
time_both()
sys.exit(wrong > 0)
