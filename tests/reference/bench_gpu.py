#!/usr/bin/env python3
"""Times optimizer steps on a GPU in our programs and in PyTorch (16-bit autocast, SDPA, fused AdamW; eager and compiled).

    python3 tests/reference/bench_gpu.py build/release/gpu_native/tests/bench_step benchmarks [WORD]

Steps, ways of batching and the table are those of bench_cases.py. Without torch, only our programs are timed.

Prints tables, and writes gpu_NAME.json and gpu_NAME.md into the folder. WORD: only steps with this word in their names,
into gpu_NAME_WORD. FLIM runs only with this word: PyTorch in bfloat16, float16 and float32 with TF32, each with channels
first and last, after cuDNN has searched the fastest convolutions.

A second table has two predictions of --estimate: from the data sheet of the card, and from rates that train_gpt --calibrate
measures at the start and keeps in rates.json of the folder.

BENCH_START, if set, is put before our programs. A program that takes more than BENCH_MOST (180) seconds has failed. After
BENCH_SECONDS (400) nothing new starts in PyTorch; the table says what was not reached.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    torch = None
import bench_cases as bench

STEPS = 10
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


def theirs(case, rows, dtype):
    """Returns by the way of batching the seconds per real row of the fastest variant, eager and compiled, or the reason of their
    lack."""
    if torch is None or rows is None:
        return {}
    times = {}
    for model, ways in case.variants():
        for way, make in ways.items():
            found = [time_theirs(case, model, make, rows, dtype, compiled) for compiled in (False, True)]
            before = times.setdefault(way, found)
            times[way] = [min(pair, key=lambda t: t if isinstance(t, float) else math.inf) for pair in zip(before, found)]
    return times


def time_theirs(case, model, make, rows, dtype, compiled):
    """Returns the seconds per real row, or the reason of their lack."""
    if time.monotonic() > DEADLINE:
        return "not reached"
    try:
        torch.manual_seed(0)
        run = bench.peers.Peer(model(), case.g, getattr(torch, dtype), "cuda").timer(make(rows, STEPS * case.g), compiled)
        run()
        return run()
    except Exception as error:  # such as a missing compiler or too little memory
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return "failed: " + type(error).__name__
    finally:
        run = None
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
    """Measures and prints the rates of this card. Returns the file that has them, "none" if train_gpt is not beside bench_step, and
    None if the measurement fails."""
    here = os.path.dirname(os.path.abspath(program))
    trainer = next((p for d in (here, os.path.dirname(here)) if os.access(p := os.path.join(d, "train_gpt"), os.X_OK)), None)
    if trainer is None:
        print("train_gpt was not found beside bench_step: nothing is calibrated", file=sys.stderr)
        return "none"
    rates = os.path.join(folder, "rates.json")
    printed, _ = run_ours(trainer, "--calibrate", "--device", "cuda", "--calibration", rates)
    if printed is None:
        return None
    print(printed, flush=True)
    return rates


def ours(program, case, dtype, rates):
    """Returns what bench_step says; or the reason of a failure."""
    options = ["--device", "cuda", "--max-steps", str(STEPS), "--calibration", rates]
    printed, why = run_ours(program, *case.command(), *options, *([] if dtype == "float32" else ["--amp"]))
    return {"failed": why} if printed is None else bench.parse_ours(printed)


def flim_cases(b):
    """Returns one case for each arithmetic type of PyTorch; our program has float32 and the 16-bit type of the card."""
    names = {"bfloat16": "PyTorch bfloat16", "float16": "PyTorch float16", "float32": "float32 (PyTorch: TF32)"}
    case = bench.flim_case(b)
    return [(case._replace(name=f"{case.name}, {name}"), dtype) for dtype, name in names.items()]


PREDICTIONS = ("| step | MFU | ours / data sheet | ours / calibrated | bound by | GB | allocated / planned |\n"
               "|---|---|---|---|---|---|---|")


def prediction_row(row):
    """Formats the share of the peak, measured over predicted time, twice; the bound of the step; memory."""
    mine = row["ours"]
    found = [mine["predicted_per_row"], mine["predicted_measured_per_row"]]
    cells = [f"{row['mfu']:.1%}" if row["mfu"] else "-"]
    cells += ["-" if math.isnan(predicted) else f"{mine['seconds_per_row'] / predicted:.2f}" for predicted in found]
    cells += [mine["bound"] or "-", f"{mine['allocated'] / 1e9:.2f}", f"{mine['allocated'] / mine['planned']:.2f}"]
    return f"| {row['step']} | " + " | ".join(cells) + " |"


def profile_table(profile, peak, bandwidth):
    """Returns a table of operations, each with the larger of its shares of the peak FLOP rate and bandwidth, if known."""
    lines = ["| operation | calls | ms | TFLOP/s | GB/s | of peak |", "|---|---|---|---|---|---|"]
    for r in sorted(profile, key=lambda r: -r["ms"]):
        shares = {"FLOPs": r["gflops"] * 1e9 / peak, "bytes": r["gbs"] * 1e9 / bandwidth}
        share, limit = max(((s, name) for name, s in shares.items() if not math.isnan(s)), default=(math.nan, ""))
        of_peak = f"{share:.0%} of {limit}" if limit else "-"
        lines.append(f"| {r['operation']} | {r['calls']} | {r['ms']:.2f} | {r['gflops'] / 1e3:.1f} | {r['gbs']:.0f} | {of_peak} |")
    return "\n".join(lines)


def run_case(program, case, dtype, rates):
    mine = ours(program, case, dtype, rates)
    row = {"step": case.name, "peer": dtype, "ours": mine, "seconds": None, "mfu": None}
    if "failed" in mine:
        return row
    row["step_rows"] = case.step_rows(mine["rows"])
    row["seconds"] = mine["seconds_per_row"] * row["step_rows"]
    if dtype != "float32" and not math.isnan(mine["peak"]):  # the peak is of 16-bit arithmetic
        row["mfu"] = mine["flops_per_row"] / mine["seconds_per_row"] / mine["peak"]
    return row


def main():
    program, folder = sys.argv[1], sys.argv[2]
    if torch is not None and not torch.cuda.is_available():
        sys.exit("bench_gpu.py: torch finds no GPU here; with a Python without torch only our programs are timed")
    name = torch.cuda.get_device_name(0) if torch else ask_driver("name")
    half = "float16" if torch and torch.cuda.get_device_capability(0) < (8, 0) else "bfloat16"
    # The most important ones first: PyTorch may not reach all.
    cases = [
        bench.tts_case("Amharic GPT", 1280, 24, 20, 12000, 8192, bench.utterances(512, 1)),
        bench.gpt_case("text GPT 108,780,288", "slm", 20, 1024),
        bench.phobert_case(32),
        bench.psd_case("pretrain", "medium", 512),
        bench.gpt_case("GPT-2 124M", "gpt2", 16, 1024),
        bench.psd_case("finetune", "medium", 512),
        bench.gpt_case("text GPT 333,808,640", "slm-regular", 12, 1024),
        bench.phobert_case(32, 128),
    ]
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    cases = [(case, half) for case in cases] + (flim_cases(64) if "FLIM" in word else [])
    cases = [(case, dtype) for case, dtype in cases if word in case.name]
    if torch is not None:
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")  # TF32, the default for convolutions
    os.makedirs(folder, exist_ok=True)
    rates = calibrate(program, folder)
    rows = [run_case(program, case, dtype, rates or "none") for case, dtype in cases]
    for row, (case, dtype) in zip(rows, cases):
        row["theirs"] = theirs(case, row["ours"].get("rows"), dtype)
        print(row["step"], row["seconds"], row["theirs"], flush=True)

    good = [row for row in rows if row["seconds"]]
    first = good[0]["ours"] if good else {"peak": math.nan, "bandwidth": math.nan, "device": ""}
    bandwidth = copy_bandwidth() if torch else first["bandwidth"]
    for row in good:
        row["ours"]["bandwidth"] = bandwidth
    peer_text = "no PyTorch"
    if torch is not None:
        peer_text = f"PyTorch {torch.__version__} ({half} autocast, SDPA, fused AdamW), CUDA {torch.version.cuda}"
    text = [
        f"# Training steps on one {name}",
        "",
        f"{time.strftime('%d %B %Y')}; {first['device']}; {peer_text} (ms eager, compiled); driver {ask_driver('driver_version')}. "
        f"Means of {STEPS} steps after a warm-up. Peak: {first['peak'] / 1e12:.0f} TFLOP/s (stated), {bandwidth / 1e9:.0f} GB/s "
        f"({'a copy, measured' if torch else 'stated'}).",
        "",
        bench.TABLE,
        *(bench.table_row(row["step"], row["seconds"] and row["ours"], row.get("step_rows"), row["theirs"]) for row in rows),
        "",
        PREDICTIONS,
        *map(prediction_row, good),
    ]
    for row in rows:
        text += ["", f"## {row['step']}: where our time goes", ""]
        text.append(row["ours"].get("failed") or profile_table(row["ours"]["profile"], first["peak"], bandwidth))
    slug = "".join(c if c.isalnum() else "_" for c in f"{name} {word}".lower()).strip("_")
    facts = {"gpu": name, "torch": torch and torch.__version__, "peak": first["peak"], "bandwidth": bandwidth, "rows": rows}
    with open(os.path.join(folder, f"gpu_{slug}.json"), "w") as file:
        json.dump(facts, file, indent=1)
    with open(os.path.join(folder, f"gpu_{slug}.md"), "w") as file:
        file.write("\n".join(text) + "\n")
    print("\n".join(text))
    if not rates or len(good) < len(rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
