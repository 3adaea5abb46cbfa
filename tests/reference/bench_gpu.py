#!/usr/bin/env python3
"""Training steps on a GPU, ours and PyTorch's (bf16 autocast or fp16, eager and compiled, SDPA), in one run.

    python3 tests/reference/bench_gpu.py build/release/tests/bench_step benchmarks

A step is forward, backward, gradient norm and clip, AdamW (fused on PyTorch's side). PyTorch pads a batch as the reference
implementation does, and, as its best batching, gets utterances of similar length; ours packs the same utterances. Prints a
table, and writes gpu_NAME.json and gpu_NAME.md into the folder. BENCH_START is put before the program, if it is set.
"""
import json
import math
import os
import random
import statistics
import subprocess
import sys

import torch
import torch.nn as nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_cpu as peer

REPEATS = 20
# Dense 16-bit tensor-core FLOP/s with f32 accumulation, as the makers state them.
PEAKS = {
    "T4": 65e12, "V100": 125e12, "A30": 165e12, "A10": 125e12, "A40": 150e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12,
    "3090": 71e12, "4090": 165e12, "H100": 989e12, "H200": 989e12,
}  # fmt: skip


def peak_of(name):
    return next((value for key, value in PEAKS.items() if key in name.replace("-", " ").split()), math.nan)


def utterances(n, seed):
    """(text tokens, codes) of n clips: lengths log-normal around 6.5 s, 1 to 30 s, 50 codes and about 4.5 pieces a second."""
    draw = random.Random(seed)
    seconds = [min(30.0, max(1.0, draw.lognormvariate(math.log(6.5), 0.6))) for _ in range(n)]
    return [(max(3, round(s * draw.uniform(3.5, 5.5))), round(50 * s)) for s in seconds]


def stepper(model, batch, dtype, compiled):
    model = model.cuda()
    batch = [x.cuda() if torch.is_tensor(x) else x for x in batch]
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    loss_of = torch.compile(model.loss) if compiled else model.loss

    def step():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype):
            loss = loss_of(*batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3

    return step


def theirs(build, dtype, compiled):
    """Median seconds of a step, or None and why not."""
    try:
        torch.manual_seed(0)
        model, batch = build()
        step = stepper(model, batch, dtype, compiled)
        for _ in range(3):
            step()
        return statistics.median(step() for _ in range(REPEATS)), None
    except Exception as error:  # a compiler that is missing, memory that does not suffice
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
    finally:
        model = batch = step = None
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def ours(program, arguments):
    command = os.environ.get("BENCH_START", "").split() + [program, "amp", "2", str(REPEATS), *arguments.split()]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: exit status {run.returncode}\n{run.stdout}{run.stderr}")
    lines = run.stdout.splitlines()
    values = {l.split()[0]: float(l.split()[1]) for l in lines[REPEATS : REPEATS + 3]}
    return statistics.median(float(x) for x in lines[:REPEATS]), values["flops"], "\n".join(lines[REPEATS + 3 :])


def tts_case(label, d, layers, heads, v, k, lengths):
    arguments = f"tts {d} {layers} {heads} {v} {k} " + " ".join(f"{a},{b}" for a, b in lengths)
    return label, arguments, lambda: (peer.Tts(d, layers, heads, v, k), peer.tts_batch(d, v, k, lengths))


def gpt2_case(b, t):
    build = lambda: (peer.Gpt2(50257, 768, 12, 12, t), [torch.randint(50257, (b, t))] * 2)
    return f"GPT-2 124M, B={b} T={t}", f"gpt2 {b} {t}", build


def main():
    program, folder = sys.argv[1], sys.argv[2]
    name = torch.cuda.get_device_name(0)
    dtype = torch.bfloat16 if torch.cuda.get_device_capability(0) >= (8, 0) else torch.float16
    torch.backends.cuda.matmul.allow_tf32 = True
    peak = peak_of(name)
    full = (1280, 24, 20, 12000, 8192)
    pool = sorted(utterances(256, 1), key=lambda u: u[1])
    at = 128
    cases = [
        tts_case("Amharic GPT, 8 utterances, padded as the reference", *full, utterances(8, 2)),
        tts_case("Amharic GPT, 8 utterances of similar length", *full, pool[at : at + 8]),
        gpt2_case(16, 1024),
        gpt2_case(64, 128),
    ]
    rows, details = [], []
    for label, arguments, build in cases:
        seconds, flops, table = ours(program, arguments)
        eager, why_eager = theirs(build, dtype, False)
        compiled, why_compiled = theirs(build, dtype, True)
        rows.append({"step": label, "ours_s": seconds, "eager_s": eager, "compiled_s": compiled, "flops": flops,
                     "mfu": flops / seconds / peak, "eager_failed": why_eager, "compiled_failed": why_compiled})  # fmt: skip
        details.append(f"## {label}: where our time goes\n\n```\n{table}\n```")
        print(rows[-1], flush=True)

    def cell(value, form):
        return form.format(value) if value is not None else "failed"

    def ratio(peer_s, our_s):
        return f"{peer_s / our_s:.2f}" if peer_s else "-"

    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    text = [
        f"# Training steps on one {name}",
        "",
        f"PyTorch {torch.__version__} ({str(dtype).removeprefix('torch.')} autocast, SDPA, fused AdamW), CUDA {torch.version.cuda}, driver "
        f"{driver.stdout.strip()}; medians of {REPEATS} steps after a warm-up. MFU: counted FLOPs over {peak / 1e12:.0f} TFLOP/s.",
        "",
        "| step | ours ms | eager ms | compiled ms | eager / ours | compiled / ours | MFU |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        text.append(
            f"| {r['step']} | {r['ours_s'] * 1e3:.2f} | {cell(r['eager_s'] and r['eager_s'] * 1e3, '{:.2f}')} | "
            f"{cell(r['compiled_s'] and r['compiled_s'] * 1e3, '{:.2f}')} | {ratio(r['eager_s'], r['ours_s'])} | "
            f"{ratio(r['compiled_s'], r['ours_s'])} | {r['mfu']:.1%} |"
        )
    slug = "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"gpu_{slug}.json"), "w") as file:
        json.dump({"gpu": name, "torch": torch.__version__, "rows": rows}, file, indent=1)
    with open(os.path.join(folder, f"gpu_{slug}.md"), "w") as file:
        file.write("\n".join(text) + "\n\n" + "\n\n".join(details) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
