#!/usr/bin/env python3
"""Times training steps on a GPU in our programs and in PyTorch (16-bit autocast, SDPA; eager and compiled).

    python3 tests/reference/bench_gpu.py build/release/gpu_native/tests/bench_step benchmarks [WORD]

A step is forward, backward, gradient norm and clip, AdamW (fused in PyTorch). PyTorch pads a batch as the reference
implementation does; in another case, its best batching, it gets utterances of similar length. Our program packs the same
utterances. If a model can be written in two ways in PyTorch, both are timed, eager and compiled, and the table has the
faster one. Without torch, only our programs are timed.

Prints a table, and writes gpu_NAME.json and gpu_NAME.md into the folder. WORD: only steps with this word in their names,
into gpu_NAME_WORD. FLIM runs only with this word: PyTorch in bfloat16, float16 and float32 with TF32, each with channels
first and last, after cuDNN has searched the fastest convolutions.

The table also has two predictions of --estimate: from the data sheet of the card, and from rates that train_gpt --calibrate
measures at the start and keeps in rates.json of the folder.

BENCH_START, if set, is put before our programs. A program that takes more than BENCH_MOST (180) seconds has failed. After
BENCH_SECONDS (400) no new case starts in PyTorch; the table names the cases that were not reached.
"""
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    import bench_cpu as peer
    from torch import nn

REPEATS = 20
DEADLINE = time.monotonic() + float(os.environ.get("BENCH_SECONDS", "400"))


def ask_driver(what):
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def copy_bandwidth():
    """Returns the bytes per second, read and written, of a copy of 1 GiB, which a memory-bound kernel can reach."""
    to, source = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    seconds = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        to.copy_(source)
        end.record()
        torch.cuda.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    del to, source
    torch.cuda.empty_cache()
    return 2 * (1 << 30) / statistics.median(seconds[2:])


def utterances(n, seed):
    """Returns (text tokens, codes) of n clips of 1 to 30 s, log-normal around 6.5 s: 50 codes and 4.5 pieces per second."""
    draw = random.Random(seed)
    seconds = [min(30.0, max(1.0, draw.lognormvariate(math.log(6.5), 0.6))) for _ in range(n)]
    return [(max(3, round(s * draw.uniform(3.5, 5.5))), round(50 * s)) for s in seconds]


def stepper(model, batches, dtype, compiled, device="cuda"):
    model = model.to(device)
    on_device = lambda batch: [x.to(device) if torch.is_tensor(x) else x for x in batch]
    batches = [(weight, on_device(batch)) for weight, batch in batches]
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    loss_of = torch.compile(model.loss) if compiled else model.loss

    def step_on(batch):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = loss_of(*batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return peer.weighted(step_on, batches)


def theirs(builds, dtype, compiled):
    """Returns the median seconds of a step in its fastest variant, or None and the reason."""
    results = [time_theirs(build, dtype, compiled) for build in builds]
    return min((r for r in results if r[0]), key=lambda r: r[0], default=results[0])


def time_theirs(build, dtype, compiled):
    """Returns the median seconds of a step, or None and the reason."""
    if torch is None:
        return None, "no torch"
    if time.monotonic() > DEADLINE:
        return None, "not reached"
    try:
        torch.manual_seed(0)
        model, batches = build()
        step = stepper(model, batches, getattr(torch, dtype), compiled)
        for _ in range(3):
            step()
        return statistics.median(step() for _ in range(REPEATS)), None
    except Exception as error:  # such as a missing compiler or too little memory
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return None, "failed: " + type(error).__name__
    finally:
        model = batches = step = None
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def run_ours(program, *arguments):
    """Returns the output and None; or None and the reason of a failure, which is also printed."""
    command = [*os.environ.get("BENCH_START", "").split(), program, *arguments]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=float(os.environ.get("BENCH_MOST", "180")))
        if not run.returncode:
            return run.stdout, None
        why = f"exit status {run.returncode}: {(run.stderr or run.stdout).strip()}"
    except subprocess.TimeoutExpired as late:
        why = f"not done after {late.timeout:.0f} s"
    print(" ".join(command), why, sep="\n", file=sys.stderr)
    return None, why


def calibrate(program, folder):
    """Measures and prints the rates of this card, and keeps them in a file that bench_step reads. Does nothing if train_gpt is
    not beside bench_step. Returns False if the measurement fails."""
    here = os.path.dirname(os.path.abspath(program))
    os.environ["BENCH_RATES"] = "none"  # not the cache of this user
    trainer = next((p for d in (here, os.path.dirname(here)) if os.access(p := os.path.join(d, "train_gpt"), os.X_OK)), None)
    if trainer is None:
        print("train_gpt was not found beside bench_step: nothing is calibrated", file=sys.stderr)
        return True
    rates = os.path.join(folder, "rates.json")
    printed, _ = run_ours(trainer, "--calibrate", "--device", "cuda", "--calibration", rates)
    if printed is None:
        return False
    os.environ["BENCH_RATES"] = rates
    print(printed, flush=True)
    return True


def predictions(said):
    """Returns the predicted seconds and their bound, from the data sheet and from the calibration."""
    found = {}
    for name in ("predicted", "predicted_measured"):
        seconds, _, bound = said.get(name, "nan").partition(" by ")
        found[name] = {"seconds": float(seconds), "bound": bound}
    return found


def ours(program, arguments, device="amp"):
    """Returns the median seconds of a step, the predictions, FLOPs, the device and the rows of the profile; or the reason of a
    failure."""
    printed, why = run_ours(program, device, "0", str(REPEATS), *arguments.split())
    if printed is None:
        return {"failed": why}
    lines = printed.splitlines()
    words = [line.split() for line in lines[REPEATS:]]
    said = {w[0]: " ".join(w[1:]) for w in words if len(w) > 1}
    profile = [
        {"operation": r[0], "calls": int(r[1]), "ms": float(r[4]), "gflops": float(r[5]), "gbs": float(r[6])}
        for r in words
        if len(r) == 7 and r[1].isdigit()
    ]
    return {
        "seconds": statistics.median(float(x) for x in lines[:REPEATS]),
        "flops": float(said["flops"]),
        "peak": float(said.get("peak", "nan")),
        "bandwidth": float(said.get("bandwidth", "nan")),
        "device": said["device"],
        **predictions(said),
        "planned_bytes": int(said["planned"]),
        "allocated_bytes": int(said["allocated"]),
        "profile": profile,
    }


def tts_case(label, d, layers, heads, v, k, lengths):
    arguments = f"tts {d} {layers} {heads} {v} {k} " + " ".join(f"{a},{b}" for a, b in lengths)
    return label, arguments, [lambda: (peer.Tts(d, layers, heads, v, k), [(1, peer.tts_batch(d, v, k, lengths))])]


def psd_case(task, size, b):
    builds = [lambda: peer.psd_step(task, size, b, sdpa=False), lambda: peer.psd_step(task, size, b, sdpa=True)]
    return f"PSD {size} {task}, B={b}", f"psd_{task} {size} {b}", builds


def flim_cases(b):
    """Returns one case for each arithmetic type of PyTorch; our program has float32 and the 16-bit type of the card."""
    builds = [lambda: peer.flim_step(b, channels_last=False), lambda: peer.flim_step(b, channels_last=True)]
    names = {"bfloat16": "PyTorch bfloat16", "float16": "PyTorch float16", "float32": "float32 (PyTorch: TF32)"}
    return [(f"FLIM, B={b}, {name}", f"flim {b}", builds, dtype) for dtype, name in names.items()]


def predicted_cells(mine):
    """Formats measured over predicted time, twice; the bound of the step; memory."""
    found = [mine["predicted"], mine["predicted_measured"]]
    cells = ["-" if math.isnan(p["seconds"]) else f"{mine['seconds'] / p['seconds']:.2f}" for p in found]
    bound = found[1]["bound"] or found[0]["bound"] or "-"
    return [*cells, bound, f"{mine['allocated_bytes'] / 1e9:.2f}", f"{mine['allocated_bytes'] / mine['planned_bytes']:.2f}"]


def profile_table(profile, peak, bandwidth):
    """Returns a table of operations, each with the larger of its shares of the peak FLOP rate and bandwidth, if known."""
    lines = ["| operation | calls | ms | TFLOP/s | GB/s | of peak |", "|---|---|---|---|---|---|"]
    for r in sorted(profile, key=lambda r: -r["ms"]):
        shares = {"FLOPs": r["gflops"] * 1e9 / peak, "bytes": r["gbs"] * 1e9 / bandwidth}
        share, limit = max(((s, name) for name, s in shares.items() if not math.isnan(s)), default=(math.nan, ""))
        of_peak = f"{share:.0%} of {limit}" if limit else "-"
        lines.append(f"| {r['operation']} | {r['calls']} | {r['ms']:.2f} | {r['gflops'] / 1e3:.1f} | {r['gbs']:.0f} | {of_peak} |")
    return "\n".join(lines)


def main():
    program, folder = sys.argv[1], sys.argv[2]
    if torch is not None and not torch.cuda.is_available():
        sys.exit("bench_gpu.py: torch finds no GPU here; with a Python without torch only our programs are timed")
    name = torch.cuda.get_device_name(0) if torch else ask_driver("name")
    half = "float16" if torch and torch.cuda.get_device_capability(0) < (8, 0) else "bfloat16"
    full = (1280, 24, 20, 12000, 8192)
    pool = sorted(utterances(256, 1), key=lambda u: u[1])
    # The most important ones first: PyTorch may not reach all.
    cases = [
        tts_case("Amharic GPT, 8 utterances of similar length", *full, pool[128:136]),
        peer.gpt_case("text GPT 108,780,288", "slm", 20, 1024),
        peer.phobert_full_case(32, 16),
        psd_case("pretrain", "medium", 512),
        peer.gpt_case("GPT-2 124M", "gpt2", 16, 1024),
        tts_case("Amharic GPT, 8 utterances, padded as the reference", *full, utterances(8, 2)),
        peer.phobert_case(32, ordered=False),
        psd_case("finetune", "medium", 512),
        peer.gpt_case("text GPT 333,808,640", "slm-regular", 12, 1024),
        peer.phobert_full_case(32, 128),
        peer.gpt_case("GPT-2 124M", "gpt2", 64, 128),
        peer.phobert_case(32, ordered=True),
    ]
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    cases = [(*case, half) for case in cases] + (flim_cases(64) if "FLIM" in word else [])
    cases = [case for case in cases if word in case[0]]
    if torch is not None:
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")  # TF32, the default for convolutions
    os.makedirs(folder, exist_ok=True)
    calibrated = calibrate(program, folder)
    rows = []
    for label, arguments, _, dtype in cases:
        mine = ours(program, arguments, "cuda" if dtype == "float32" else "amp")
        rows.append({"step": label, "peer": dtype, "ours": mine})
    for row, (_, _, builds, dtype) in zip(rows, cases):
        for kind in ("eager", "compiled"):
            row[kind + "_s"], row[kind + "_missing"] = theirs(builds, dtype, kind == "compiled")
        print(row["step"], row["ours"].get("seconds"), row["eager_s"], row["compiled_s"], flush=True)

    peak, stated = next(((r["ours"]["peak"], r["ours"]["bandwidth"]) for r in rows if "peak" in r["ours"]), (math.nan, math.nan))
    bandwidth = copy_bandwidth() if torch else stated
    peer_text = "no PyTorch"
    if torch is not None:
        peer_text = f"PyTorch {torch.__version__} ({half} autocast, SDPA, fused AdamW), CUDA {torch.version.cuda}"
    device = next((r["ours"]["device"] for r in rows if "device" in r["ours"]), "")
    text = [
        f"# Training steps on one {name}",
        "",
        f"{time.strftime('%d %B %Y')}; {device}; {peer_text}; driver {ask_driver('driver_version')}. Medians of {REPEATS} steps after a warm-up. Peak: "
        f"{peak / 1e12:.0f} TFLOP/s (stated), {bandwidth / 1e9:.0f} GB/s ({'a copy, measured' if torch else 'stated'}).",
        "",
        "| step | ours ms | eager ms | compiled ms | eager / ours | compiled / ours | MFU | ours / data sheet | ours / calibrated "
        "| bound by | GB | allocated / planned |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        mine = r["ours"].get("seconds")
        times = [mine, r["eager_s"], r["compiled_s"]]
        missing = ["failed", r["eager_missing"], r["compiled_missing"]]
        cells = [f"{t * 1e3:.2f}" if t else why for t, why in zip(times, missing)]
        cells += [f"{t / mine:.2f}" if t and mine else "-" for t in times[1:]]
        # The peak is of 16-bit arithmetic.
        r["mfu"] = r["ours"]["flops"] / mine / peak if mine and r["peer"] != "float32" and not math.isnan(peak) else None
        cells.append(f"{r['mfu']:.1%}" if r["mfu"] else "-")
        cells += predicted_cells(r["ours"]) if mine else ["-"] * 5
        text.append(f"| {r['step']} | " + " | ".join(cells) + " |")
    for r in rows:
        text += ["", f"## {r['step']}: where our time goes", ""]
        text.append(r["ours"].get("failed") or profile_table(r["ours"]["profile"], peak, bandwidth))
    slug = "".join(c if c.isalnum() else "_" for c in f"{name} {word}".lower()).strip("_")
    with open(os.path.join(folder, f"gpu_{slug}.json"), "w") as file:
        json.dump({"gpu": name, "torch": torch and torch.__version__, "peak": peak, "bandwidth": bandwidth, "rows": rows}, file, indent=1)
    with open(os.path.join(folder, f"gpu_{slug}.md"), "w") as file:
        file.write("\n".join(text) + "\n")
    print("\n".join(text))
    if not calibrated or any("failed" in r["ours"] for r in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
