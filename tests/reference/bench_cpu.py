#!/usr/bin/env python3
"""Times one training step on the CPU in our programs and in PyTorch (float32, as many threads; eager and compiled).

    python3 tests/reference/bench_cpu.py build/release/tests/bench_step [threads [repeats [WORD]]]

A step is forward, backward, gradient norm and clip, AdamW (fused in PyTorch, which is faster than its foreach). The two
programs alternate, so that both see the same machine.
WORD: only steps with this word in their names. FLIM and PhoBERT run only if WORD asks for them, because a step takes
seconds.
PyTorch gets the TTS batch padded as in the reference implementation; our program packs it. If a model can be written in
two ways in PyTorch, both are timed. The table has PyTorch's fastest way. Comments of real lengths are padded to a
multiple of 8, in random batches and in batches of sorted lengths: its time is the mean over some batches of an epoch.
"""
import bisect
import collections
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from functools import partial

import cv_torch as flim
import psd_torch as psd
import torch
import torch.nn.functional as F
from torch import nn


ROUNDS = 4  # in which our steps and PyTorch's alternate


class Block(nn.Module):
    def __init__(self, d, heads, bias=True, gelu="tanh"):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.ln_1, self.ln_2 = nn.LayerNorm(d, bias=bias), nn.LayerNorm(d, bias=bias)
        self.attn, self.proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.fc, self.out = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.attn(self.ln_1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate=self.gelu))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, d, layers, heads, positions, bias=True, gelu="tanh"):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(positions, d)
        self.blocks = nn.ModuleList(Block(d, heads, bias, gelu) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d, bias=bias)

    def loss(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


GPT_SIZES = {  # of bench_step: vocabulary, d, layers, heads; biases, GELU
    "gpt2": (50257, 768, 12, 12, True, "tanh"),
    "slm": (30000, 768, 12, 12, False, "none"),
    "slm-regular": (30000, 1024, 24, 16, False, "none"),
    "slm-small": (4096, 256, 4, 4, False, "none"),
}


def gpt_case(label, size, b, t):
    vocabulary, d, layers, heads, bias, gelu = GPT_SIZES[size]
    build = lambda: (Gpt2(vocabulary, d, layers, heads, t, bias, gelu), [(1, torch.randint(vocabulary, (2, b, t)))])
    return f"{label}, B={b} T={t}", f"{size} {b} {t}", [build]


class Tts(nn.Module):
    def __init__(self, d, layers, heads, v, k):
        super().__init__()
        self.text, self.mel = nn.Embedding(v + 1, d), nn.Embedding(k + 2, d)
        self.text_pos, self.mel_pos = nn.Embedding(602, d), nn.Embedding(1818, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.ln_f, self.norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.text_head, self.mel_head = nn.Linear(d, v + 1), nn.Linear(d, k + 2)

    def loss(self, cond, text, text_target, text_mask, mel, mel_target, mel_mask):
        t, m = text.shape[1], mel.shape[1]
        places = torch.arange(max(t, m), device=text.device)
        x = torch.cat([cond, self.text(text) + self.text_pos(places[:t]), self.mel(mel) + self.mel_pos(places[:m])], 1)
        for block in self.blocks:
            x = block(x)
        x = self.norm(self.ln_f(x)[:, cond.shape[1] :])
        total = 0
        for head, hidden, target, mask, weight in (
            (self.text_head, x[:, :t], text_target, text_mask, 0.2),
            (self.mel_head, x[:, t:], mel_target, mel_mask, 0.8),
        ):
            ce = F.cross_entropy(head(hidden).transpose(1, 2), target, reduction="none")
            total = total + weight * (ce * mask).sum() / mask.sum()
        return total


def tts_batch(d, v, k, lengths):
    lt, lm = max(a for a, _ in lengths) + 2, max(b for _, b in lengths) + 2
    text, mel = torch.randint(v, (len(lengths), lt)), torch.randint(k, (len(lengths), lm))
    masks = [torch.tensor([[float(i <= n[w]) for i in range(size)] for n in lengths]) for w, size in ((0, lt), (1, lm))]
    cond = torch.randn(len(lengths), 34, d)
    return cond, text, text.roll(-1, 1), masks[0], mel, mel.roll(-1, 1), masks[1]


PSD_SIZES = {  # d, layers, heads, ffn; width and layers of the decoder; projection; hidden layer of the classifier
    "small": ((128, 4, 4, 256), (64, 2, 64), 128),
    "l4": ((256, 6, 8, 1024), (64, 2, 64), 128),
    "medium": ((512, 8, 8, 2048), (128, 4, 128), 256),
    "large": ((1024, 16, 16, 4096), (128, 4, 128), 256),
}


def psd_step(task, size, b, sdpa):
    """Pretrains as the reference does: the encoder runs once on 5 visible patches and twice on 13 tokens; no dropout. Unless
    sdpa, attention returns its probabilities."""
    encoder, decoder, hidden = PSD_SIZES[size]
    rows, positives, labels = torch.randn(b, psd.BINS), torch.randn(b, psd.BINS), torch.randint(psd.CLASSES, (b,))
    if task == "pretrain":
        return psd.Mpae(*encoder, *decoder, sdpa=sdpa), [(1, (rows, positives))]
    return psd.Classifier(*encoder, hidden, sdpa=sdpa), [(1, (rows, labels))]


def psd_case(task, size, b):
    builds = [partial(psd_step, task, size, b, sdpa) for sdpa in (False, True)]
    return f"PSD {size} {task}, B={b}", f"psd_{task} {size} {b}", builds


def flim_step(b, channels_last):
    """No dropout."""
    x, targets = torch.rand(b, 2, flim.BINS, flim.SIDE, flim.SIDE), torch.randint(2, (b,)).float()
    layout = torch.channels_last_3d if channels_last else torch.contiguous_format
    return flim.Flim().to(memory_format=layout), [(1, (x.to(memory_format=layout), targets))]


def flim_case(b):
    return f"FLIM, B={b}", f"flim {b}", [partial(flim_step, b, channels_last) for channels_last in (False, True)]


class Layer(nn.Module):
    """Of BERT: norms behind the sums."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.proj, self.fc, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.attn(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.ln_1(x + self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return self.ln_2(x + self.out(F.gelu(self.fc(x))))


class PhoBert(nn.Module):
    """The base model with a head for two classes."""

    def __init__(self, vocabulary=64001, positions=258, d=768, layers=12, heads=12):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(vocabulary, d), nn.Embedding(positions, d), nn.Embedding(1, d)
        self.ln, self.layers = nn.LayerNorm(d), nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.dense, self.out = nn.Linear(d, d), nn.Linear(d, 2)
        self.register_buffer("weights", torch.tensor([0.605, 2.889]))

    def loss(self, ids, mask, labels):
        places = torch.arange(ids.shape[1], device=ids.device) + 2
        x = self.ln(self.word(ids) + self.kind.weight + self.position(places))
        for layer in self.layers:
            x = layer(x, mask)
        return F.cross_entropy(self.out(torch.tanh(self.dense(x[:, 0]))), labels, self.weights)


def comment_lengths():
    """Returns the lengths of the data set of data/bert/lengths.c, ascending."""
    shares = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.999543, 1]
    points = [math.log(n) for n in (3, 7, 12, 19.5, 30, 42, 76, 134, 192, 473)]
    lengths, rows = [], 24048
    for i in range(rows):
        share = (i + 0.5) / rows
        at = bisect.bisect_left(shares, share)
        part = (share - shares[at - 1]) / (shares[at] - shares[at - 1])
        lengths.append(min(round(math.exp(points[at - 1] + part * (points[at] - points[at - 1]))), 192))
    return lengths


def phobert_batch(lengths, t):
    lengths = torch.tensor(lengths)
    mask = (torch.arange(t) < lengths[:, None])[:, None, None]
    return torch.randint(4, 64000, (len(lengths), t)), mask, torch.randint(2, (len(lengths),))


def phobert_step(b, ordered):
    """Takes batches of an epoch in even steps of the longest length, one for each padded length, as often as it came."""
    lengths = comment_lengths()
    if not ordered:
        lengths = [lengths[i] for i in torch.randperm(len(lengths), generator=torch.Generator().manual_seed(0))]
    epoch = sorted((lengths[i : i + b] for i in range(0, len(lengths) - b + 1, b)), key=max)
    taken = 16 if ordered else 6
    batches = collections.defaultdict(list)
    for k in range(taken):
        batch = epoch[(2 * k + 1) * len(epoch) // (2 * taken)]
        batches[(max(batch) + 7) // 8 * 8].append(batch)
    return PhoBert(), [(len(alike), phobert_batch(alike[0], t)) for t, alike in batches.items()]


def phobert_case(b, ordered):
    name = f"PhoBERT base, B={b}, {'sorted' if ordered else 'random'}"
    return name, f"bert-real {b}", [partial(phobert_step, b, ordered)]


def phobert_full_case(b, t):
    return f"PhoBERT base, B={b} T={t}", f"bert {b} {t}", [lambda: (PhoBert(), [(1, phobert_batch([t] * b, t))])]


def weighted(step_on, batches):
    """Returns a step whose time is the weighted mean over the batches: pairs of a weight and the arguments of model.loss."""
    return lambda: sum(weight * step_on(batch) for weight, batch in batches) / sum(weight for weight, _ in batches)


def stepper(model, batches, compiled):
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    shapes = None if len(batches) == 1 else True  # one compilation for all lengths, instead of one for each
    loss_of = torch.compile(model.loss, dynamic=shapes) if compiled else model.loss

    def step_on(batch):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(*batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - start

    return weighted(step_on, batches)


def measure(program, threads, repeats, arguments, builds):
    """Returns the median seconds of our step and of each variant in PyTorch, each eager and compiled, and the other output of
    our program."""
    torch._dynamo.reset()
    steps = [stepper(*build(), compiled) for build in builds for compiled in (False, True)]
    ours, theirs = [], [[] for _ in steps]
    for step in steps:
        step(), step()
    for _ in range(ROUNDS):
        command = [program, "cpu", str(threads), str(repeats), *arguments.split()]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = run.stdout.splitlines()
        ours += [float(x) for x in lines[:repeats]]
        for step, seconds in zip(steps, theirs):
            seconds += [step() for _ in range(repeats)]
    return statistics.median(ours), [statistics.median(seconds) for seconds in theirs], lines[repeats:]


def main():
    program = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    word = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    # The model of the demo (demo/demo.yaml) on a batch of eight utterances of 2 to 5 seconds.
    d, layers, heads, v, k = 128, 4, 4, 500, 256
    lengths = [(14, 100), (18, 130), (20, 140), (22, 160), (24, 170), (28, 200), (30, 220), (34, 250)]
    cases = [
        gpt_case("GPT-2 124M", "gpt2", 4, 64),
        gpt_case("GPT-2 124M", "gpt2", 1, 1024),
        gpt_case("text GPT 4 x 256", "slm-small", 8, 128),
        gpt_case("text GPT 108,780,288", "slm", 1, 256),
        (
            "demo TTS GPT, 8 utterances",
            f"tts {d} {layers} {heads} {v} {k} " + " ".join(f"{a},{b}" for a, b in lengths),
            [lambda: (Tts(d, layers, heads, v, k), [(1, tts_batch(d, v, k, lengths))])],
        ),
        psd_case("pretrain", "small", 64),
        psd_case("finetune", "small", 64),
    ]
    if "FLIM" in word:
        cases.append(flim_case(4))
    if "PhoBERT" in word:
        cases += [phobert_case(b, ordered) for b in (32, 96) for ordered in (False, True)]
    model_name = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    print(f"{model_name}, {threads} threads, PyTorch {torch.__version__} float32, "
          f"medians of {ROUNDS * repeats} steps after a warm-up")
    print(f"{'step':28} {'ours s':>9} {'PyTorch s':>10} {'PyTorch/ours':>13} {'GFLOP/s':>8}")
    details = []
    for name, arguments, builds in cases:
        if word not in name:
            continue
        ours, theirs, lines = measure(program, threads, repeats, arguments, builds)
        flops = float(next(l.split()[1] for l in lines if l.startswith("flops ")))
        best = min(theirs)
        print(f"{name:28} {ours:9.4f} {best:10.4f} {best / ours:13.2f} {flops / ours * 1e-9:8.0f}")
        predicted = next((float(l.split()[1]) for l in lines if l.startswith("predicted_measured ")), None)
        ways = ", ".join(f"{seconds:.4f}" for seconds in theirs)
        estimate = f"--estimate says {predicted:.4f} s (measured / predicted {ours / predicted:.2f}); " if predicted else ""
        profile = next(i for i, l in enumerate(lines) if l.startswith("operation "))
        details.append(f"{name}, PyTorch (eager, compiled) {ways} s; {estimate}where our time goes:\n" + "\n".join(lines[profile:]))
    print("\n" + "\n\n".join(details))


if __name__ == "__main__":
    main()
