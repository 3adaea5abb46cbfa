#!/usr/bin/env python3
"""Compares the predictions of --estimate with measured training steps on the CPU of this machine.

    python3 tests/reference/bench_estimate.py build/release [rounds [WORD]]

A round measures the CPU with `train_gpt --calibrate --device cpu`, asks `--estimate --gpu here` for the time of a step of each
model, and times such steps with bench_step. Other programs on the machine make some rounds slower and none faster, so the
least prediction and the least time count. WORD: only steps with this word in their names, with the predicted and measured
time of each operation.
"""
import json
import subprocess
import sys
import tempfile

BUILD = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
WORD = sys.argv[3] if len(sys.argv) > 3 else ""
TYPICAL = "100,250"  # text tokens and codes of a sample, as --estimate assumes without data


def gpt(name, d, layers, heads, vocabulary, batch):
    return (name, f"train_gpt --model-dim {d} --layers {layers} --heads {heads} --number-text-tokens {vocabulary} "
            f"-b {batch} -g 1", f"tts {d} {layers} {heads} {vocabulary} 8192 {TYPICAL} -b {batch} -g 1")


def psd(command, size, batch):
    return (f"PSD {command}, {size}, B={batch}", f"train_psd {command} --size {size} -b {batch} -g 1",
            f"psd_{command} {size} -b {batch}")


# Name, options of our program, arguments of bench_step.
STEPS = [
    gpt("GPT small: 4 layers of 128, B=4", 128, 4, 2, 2000, 4),
    gpt("GPT medium: 8 layers of 512, B=4", 512, 8, 8, 12000, 4),
    gpt("GPT larger: 12 layers of 768, B=4", 768, 12, 12, 12000, 4),
    psd("pretrain", "small", 64),
    psd("finetune", "small", 64),
    ("FLIM, B=4", "train_cv -b 4 -g 1", "flim -b 4"),
]


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def predict(options, rates):
    program, *rest = options.split()
    text = run(f"{BUILD}/{program}", *rest, "--estimate", "--gpu", "here", "--device", "cpu", "--calibration", rates, "--json")
    estimate = json.loads(text)
    return estimate["step"]["flops"], estimate["gpus"][0]


def measure(arguments, predicted):
    """Returns the seconds and FLOPs of a step, and the seconds of each operation."""
    repeats = max(3, min(30, round(4 / predicted)))
    options = ["--device", "cpu", "--max-steps", str(repeats)]
    lines = run(f"{BUILD}/tests/bench_step", *arguments.split(), *options).splitlines()
    seconds = sorted(float(line.split()[1]) for line in lines if line.startswith("step "))
    flops = next(float(line.split()[1]) for line in lines if line.startswith("flops "))
    table = {words[0]: float(words[4]) / 1e3 for words in map(str.split, lines) if len(words) == 7 and words[1].isdigit()}
    return seconds[0], flops, table


def print_operations(card, measured):
    print(f"{'operation':32} {'predicted':>10} {'measured':>10} ms")
    for row in card["operations"]:
        name = row["operation"]
        print(f"{name:32} {row['seconds'] * 1e3:10.3f} {measured.get(name, 0) * 1e3:10.3f}")


def main():
    results = {name: [] for name, _, _ in STEPS if WORD in name}
    with tempfile.TemporaryDirectory() as directory:
        rates = f"{directory}/rates.json"
        for _ in range(ROUNDS):
            run(f"{BUILD}/train_gpt", "--calibrate", "--device", "cpu", "--calibration", rates)
            for name, options, arguments in STEPS:
                if name not in results:
                    continue
                flops, card = predict(options, rates)
                seconds, counted, table = measure(arguments, card["step_seconds"])
                if abs(flops / counted - 1) > 0.01:
                    sys.exit(f"{name}: the step that is predicted has {flops:g} FLOPs, the one that is timed {counted:g}")
                results[name].append((card["step_seconds"], seconds))
                print(f"{name}: {card['step_seconds']:.4f} s predicted, {seconds:.4f} s measured", flush=True)
                if WORD:
                    print_operations(card, table)
    print("\n| step | predicted | measured | predicted / measured |\n|---|---|---|---|")
    for name, pairs in results.items():
        predicted, seconds = (min(values) for values in zip(*pairs))
        print(f"| {name} | {predicted:.4f} s | {seconds:.4f} s | {predicted / seconds:.2f} |")


main()
