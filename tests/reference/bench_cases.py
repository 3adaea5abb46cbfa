"""What bench_cpu.py and bench_gpu.py time, how they read bench_step, and their table. It needs no torch.

A step is what users run: -g micro-batches, each another one, forward and backward with dropout; gradient norm and clip; AdamW
(fused in PyTorch, which is faster than its foreach). Our program packs: no row is padding. PyTorch gets samples of the same
lengths in three ways:
  padded  random micro-batches, padded to their longest sample, as the reference implementations do
  sorted  micro-batches of similar lengths, padded to a multiple of 8
  packed  random micro-batches end to end: attention over nested tensors on a GPU, sequence by sequence on a CPU
Where all samples of a model are equally long, the three are one, which stands under packed. If a model can be written in two
ways in PyTorch, both are timed. FLIM's cells are augmented in our step, and ready for PyTorch.
"""
import math
import random
import statistics
from functools import partial
from typing import Callable, NamedTuple

try:
    import bench_peers as peers
except ImportError:  # no torch
    peers = None

WAYS = ("padded", "sorted", "packed")


class Case(NamedTuple):
    name: str
    arguments: str  # of bench_step
    b: int
    g: int
    # Returns the ways in which the model can be written: a function that makes it, and by the way of batching a function of the
    # rows of each sample of an epoch and of a number n, which returns n micro-batches: real rows and arguments of model.loss.
    variants: Callable

    def command(self):
        return [*self.arguments.split(), "-b", str(self.b), "-g", str(self.g)]

    def step_rows(self, rows):
        """Returns the real rows of a mean step."""
        return statistics.mean(rows) * self.b * self.g


def alike_case(name, arguments, b, variants):
    """variants: returns pairs of functions that make a model, and a micro-batch of samples that are all equally long."""

    def make(batch, rows, n):
        return [(b * rows[0], batch()) for _ in range(n)]

    return Case(name, arguments, b, 1, lambda: [(model, {"packed": partial(make, batch)}) for model, batch in variants()])


def taken(rows, b, n, ordered):
    """Returns n micro-batches of b samples of an epoch in random order, or in that of their lengths: from each n-th of the epoch
    the one whose padded size is nearest to the mean."""
    order = list(range(len(rows))) * -(-n * b // len(rows))
    random.Random(0).shuffle(order)
    if ordered:
        order.sort(key=lambda i: rows[i])
    longest = lambda batch: max(rows[i] for i in batch)
    epoch = sorted((order[i : i + b] for i in range(0, len(order) - b + 1, b)), key=longest)
    parts = [epoch[k * len(epoch) // n : (k + 1) * len(epoch) // n] for k in range(n)]
    means = [statistics.mean(map(longest, part)) for part in parts]
    batches = [min(part, key=lambda batch: abs(longest(batch) - mean)) for part, mean in zip(parts, means)]
    random.Random(1).shuffle(batches)
    return batches


def ragged_case(name, arguments, b, g, parts, samples=None):
    """parts: returns functions that make a model, and micro-batches of some lengths, padded and packed. samples: these lengths;
    None: the rows of each sample."""

    def make(batch, ordered, rows, n):
        lengths = samples or rows
        return [(sum(rows[i] for i in ids), batch([lengths[i] for i in ids])) for ids in taken(rows, b, n, ordered)]

    def variants():
        model, padded, packed = parts()
        ways = {"padded": (padded, False), "sorted": (partial(padded, multiple=8), True), "packed": (packed, False)}
        return [(model, {way: partial(make, *how) for way, how in ways.items()})]

    return Case(name, arguments, b, g, variants)


GPT_SIZES = {  # of bench_step: vocabulary, d, layers, heads; biases, GELU, dropout
    "gpt2": (50257, 768, 12, 12, True, "tanh", 0.0),
    "slm": (30000, 768, 12, 12, False, "none", 0.1),
    "slm-regular": (30000, 1024, 24, 16, False, "none", 0.1),
    "slm-small": (4096, 256, 4, 4, False, "none", 0.1),
}


def gpt_case(label, size, b, t):
    vocabulary, *width, bias, gelu, dropout = GPT_SIZES[size]
    sizes = (vocabulary, *width, t, bias, gelu, dropout)
    variants = lambda: [(partial(peers.Gpt2, *sizes), partial(peers.gpt_batch, vocabulary, b, t))]
    return alike_case(f"{label}, B={b} T={t}", f"{size} {t}", b, variants)


def utterances(n, seed, mean=6.5, longest=30.0):
    """Returns (text tokens, codes) of n clips of at least 1 s, log-normal around 6.5 s: 50 codes and 4.5 pieces per second."""
    draw = random.Random(seed)
    seconds = [min(longest, max(1.0, draw.lognormvariate(math.log(mean), 0.6))) for _ in range(n)]
    return [(max(3, round(s * draw.uniform(3.5, 5.5))), round(50 * s)) for s in seconds]


def tts_case(label, d, layers, heads, v, k, lengths, b=8, g=4):
    arguments = f"tts {d} {layers} {heads} {v} {k} " + ",".join(f"{text},{codes}" for text, codes in lengths)
    batches = lambda: (partial(make, d, v, k) for make in (peers.tts_padded, peers.tts_packed))
    parts = lambda: (partial(peers.Tts, d, layers, heads, v, k), *batches())
    return ragged_case(f"{label}, B={b} x {g}", arguments, b, g, parts, lengths)


PSD_SIZES = {  # d, layers, heads, ffn; width and layers of the decoder; projection; hidden layer of the classifier
    "small": ((128, 4, 4, 256), (64, 2, 64), 128),
    "l4": ((256, 6, 8, 1024), (64, 2, 64), 128),
    "medium": ((512, 8, 8, 2048), (128, 4, 128), 256),
    "large": ((1024, 16, 16, 4096), (128, 4, 128), 256),
}


def psd_case(task, size, b):
    model = lambda sdpa: partial(peers.psd_model, task, PSD_SIZES[size], sdpa)
    variants = lambda: [(model(sdpa), partial(peers.psd_batch, task, b)) for sdpa in (False, True)]
    return alike_case(f"PSD {size} {task}, B={b}", f"psd_{task} {size}", b, variants)


def flim_case(b):
    variants = lambda: [(partial(peers.flim_model, layout), partial(peers.flim_batch, layout, b)) for layout in peers.LAYOUTS]
    return alike_case(f"FLIM, B={b}", "flim", b, variants)


def phobert_case(b, t=0):
    """t 0: comments of real lengths. Ours has the rows of the ids that occur, as it has by default; PyTorch all."""
    parts = lambda: (peers.PhoBert, peers.phobert_padded, peers.phobert_packed)
    return ragged_case(f"PhoBERT base, B={b}" + (f" T={t}" if t else ""), f"bert 10416 {t}", b, 1, parts)


# ---- our program ----


def parse_ours(printed):
    """Returns what bench_step says: the rows of each sample; seconds, FLOPs, bytes and predictions per real row; rates and memory;
    the lines and rows of the profile."""
    lines = printed.splitlines()
    words = [line.split() for line in lines]
    said = {w[0]: w[1:] for w in words if w}
    steps = [(float(w[1]), int(w[2])) for w in words if w[:1] == ["step"]]
    profile = [
        {"operation": w[0], "calls": int(w[1]), "ms": float(w[4]), "gflops": float(w[5]), "gbs": float(w[6])}
        for w in words
        if len(w) == 7 and w[1].isdigit()
    ]
    rows = statistics.mean(n for _, n in steps)
    number = lambda name: float(said.get(name, ["nan"])[0])
    return {
        "rows": [int(n) for n in said["rows"]],
        "seconds_per_row": statistics.mean(seconds for seconds, _ in steps) / rows,
        **{f"{name}_per_row": number(name) / rows for name in ("flops", "bytes", "predicted", "predicted_measured")},
        "bound": " ".join(said.get("predicted_measured", said.get("predicted", []))[2:]),
        "device": " ".join(said["device"]),
        "profile": profile,
        "profile_lines": lines[next(i for i, w in enumerate(words) if w[:1] == ["operation"]) :],
        **{name: number(name) for name in ("peak", "bandwidth", "planned", "allocated")},
    }


# ---- the table ----

TABLE = ("| step | ours ms | tokens/s | padded | sorted | packed | padded / ours | sorted / ours | packed / ours | floor / ours |\n"
         "|---|---|---|---|---|---|---|---|---|---|")


def table_row(name, ours, step_rows, theirs):
    """ours: of parse_ours, or None; theirs: by the way, the seconds per row or the reason of their lack, eager and compiled."""
    if not ours:
        return f"| {name} | failed |" + " - |" * 8
    mine = ours["seconds_per_row"]
    digits = lambda ms: f"{ms:.0f}" if ms >= 1000 else f"{ms:.4g}"
    shown = lambda t: digits(t * step_rows * 1e3) if isinstance(t, float) else t
    cells = [shown(mine), f"{1 / mine:,.0f}"]
    cells += [", ".join(map(shown, theirs[way])) if way in theirs else "-" for way in WAYS]
    fastest = [min((t for t in theirs.get(way, ()) if isinstance(t, float)), default=None) for way in WAYS]
    cells += [f"{t / mine:.2f}" if t else "-" for t in fastest]
    floor = max(ours["flops_per_row"] / ours["peak"], ours["bytes_per_row"] / ours["bandwidth"])
    cells.append("-" if math.isnan(floor) else f"{floor / mine:.0%}")
    return f"| {name} | " + " | ".join(cells) + " |"
