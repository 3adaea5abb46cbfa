#!/usr/bin/env python3
"""Times tools/tokenize beside the package `tokenizers`, both on one thread, in processor seconds.

    bench_tokenizer.py TOOL TEXT TOKENIZER...

Each tokenizer encodes TEXT as one text and line by line (encode_batch), ROUNDS times in turn; printed are medians, each as
megabytes per second, and their ratio. Then both train byte-level BPE on the lines of TEXT.
"""
import os

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import resource
import statistics
import subprocess
import sys
import time

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizer_texts import lines_of

ROUNDS, VOCABULARY = 3, 8000


def seconds_of(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def encode(tool, text, path):
    lines, rows = lines_of(text), []
    whole = "\n".join(lines)
    for _ in range(ROUNDS):
        ours = [float(s) for s in subprocess.run([tool, "time", path, text], check=True, capture_output=True).stdout.split()]
        opened = seconds_of(lambda: Tokenizer.from_file(path))
        tokenizer = Tokenizer.from_file(path)
        one = seconds_of(lambda: tokenizer.encode(whole, add_special_tokens=False))
        tokenizer = Tokenizer.from_file(path)  # with an empty cache
        rows.append(ours + [opened, one, seconds_of(lambda: tokenizer.encode_batch(lines, add_special_tokens=False))])
    size = len(whole.encode()) / 1e6
    medians = [statistics.median(column) for column in zip(*rows)]
    print(path)
    print(f"  open: {medians[0] * 1e3:.0f} ms, tokenizers {medians[3] * 1e3:.0f} ms")
    for name, a, b in (("one text", medians[1], medians[4]), ("lines", medians[2], medians[5])):
        print(f"  {name}: {size / a:.1f} MB/s, tokenizers {size / b:.2f} MB/s, ratio {b / a:.1f}")


def train(tool, text):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([tool, "train", text, str(VOCABULARY), "1", "/dev/shm/trained.json"], check=True, capture_output=True)
    ours = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False)
    theirs = seconds_of(lambda: tokenizer.train_from_iterator(lines_of(text), trainer))
    os.remove("/dev/shm/trained.json")
    print(f"training, {VOCABULARY} pieces: {ours:.2f} s, tokenizers {theirs:.2f} s, ratio {theirs / ours:.1f}")


def main():
    tool, text, *paths = sys.argv[1:]
    for path in paths:
        encode(tool, text, path)
    train(tool, text)


main()
