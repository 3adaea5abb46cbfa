#!/usr/bin/env python3
"""Times optimizer steps on the CPU in our programs and in PyTorch (float32, as many threads; eager and compiled), as
bench_cases.py says.

    python3 tests/reference/bench_cpu.py build/release/tests/bench_step [threads [steps [WORD]]]

The two programs alternate, so that both see the same machine.
WORD: only steps with this word in their names. FLIM and PhoBERT run only if WORD asks for them, because a step takes
seconds.
"""
import math
import os
import platform
import statistics
import subprocess
import sys

import bench_cases as bench
import bench_peers as peers
import torch

ROUNDS = 4  # in which our steps and PyTorch's alternate


def measure(case, program, threads, steps):
    """Returns what our program says, with the median seconds per row, and those of PyTorch by the way."""
    torch._dynamo.reset()
    command = [program, *case.command(), "--device", "cpu", "--threads", str(threads), "--max-steps", str(steps)]
    run_ours = lambda: bench.parse_ours(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ours = run_ours()
    runs = {}  # by way, variant and whether it is compiled
    for variant, (model, ways) in enumerate(case.variants()):
        peer = peers.Peer(model(), case.g)
        for way, make in ways.items():
            batches = make(ours["rows"], steps * case.g)
            runs |= {(way, variant, compiled): peer.timer(batches, compiled) for compiled in (False, True)}
    for run in runs.values():
        run()
    seconds, mine = {key: [] for key in runs}, []
    for _ in range(ROUNDS):
        mine.append(run_ours()["seconds_per_row"])
        for key, run in runs.items():
            seconds[key].append(run())
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    ours["seconds_per_row"] = statistics.median(mine)
    return ours, {way: [min(t for (w, _, c), t in medians.items() if (w, c) == (way, compiled)) for compiled in (False, True)]
                  for way in dict.fromkeys(way for way, _, _ in runs)}


def main():
    program = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    word = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    cases = [
        bench.gpt_case("GPT-2 124M", "gpt2", 4, 64),
        bench.gpt_case("GPT-2 124M", "gpt2", 1, 1024),
        bench.gpt_case("text GPT 4 x 256", "slm-small", 8, 128),
        bench.gpt_case("text GPT 108,780,288", "slm", 1, 256),
        bench.tts_case("demo TTS GPT", 128, 4, 4, 500, 256, bench.utterances(512, 1, mean=3.3, longest=5.0)),
        bench.psd_case("pretrain", "small", 64),
        bench.psd_case("finetune", "small", 64),
    ]
    if "FLIM" in word:
        cases.append(bench.flim_case(4))
    if "PhoBERT" in word:
        cases += [bench.phobert_case(b) for b in (32, 96)]
    model_name = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    print(f"{model_name}, {threads} threads, PyTorch {torch.__version__} float32 (ms eager, compiled), medians of {ROUNDS} rounds "
          f"of {steps} steps\n\n{bench.TABLE}", flush=True)
    details = []
    for case in cases:
        if word not in case.name:
            continue
        ours, theirs = measure(case, program, threads, steps)
        print(bench.table_row(case.name, ours, case.step_rows(ours["rows"]), theirs), flush=True)
        mine, predicted = ours["seconds_per_row"], ours["predicted_measured_per_row"]
        estimate = "" if math.isnan(predicted) else f"measured / predicted by --estimate {mine / predicted:.2f}; "
        details.append(f"{case.name}, {ours['flops_per_row'] / mine * 1e-9:.0f} GFLOP/s; {estimate}where our time goes:\n"
                       + "\n".join(ours["profile_lines"]))
    print("\n" + "\n\n".join(details))


if __name__ == "__main__":
    main()
