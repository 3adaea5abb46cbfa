#!/usr/bin/env python3
"""Compares the loss curve of train_slm on the King James Bible with that of PyTorch in float32.

    python3 tests/reference/compare_curve_slm.py build/release/train_slm [adamw|muon [steps]]

Needs the Debian package bible-kjv, whose program `bible` prints the text. `train_slm prepare` makes tokenizer and shards.
Both sides start from the same weights, made here, and take the same contexts in the same order, without dropout. The
places of --sampling random follow from the seed and are computed here again; the first batch is compared with the one
that --debug-dump writes. Fails if a loss of the 300 steps differs by more than 1e-3.

With muon PyTorch runs its own torch.optim.Muon, whose Newton-Schulz steps are in bfloat16; q, k and v are three matrices.
That difference is reported, not judged.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.numpy import load_file, save_file

from bench_peers import Gpt2

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 4, 128, 4, 64, 2048, 8
RATE, MINIMUM, WARMUP, DECAY, CLIP, SEED = 1e-3, 0.1, 30, 0.1, 1.0, 1234
SHUFFLE, PLACES = 3, 3 | 2 << 8  # purposes of random numbers
NAMES = {"wte": "wte", "wpe": "wpe", "ln_f": "ln_f", "ln_1": "ln_1", "ln_2": "ln_2", "attn": "attn.c_attn",
         "proj": "attn.c_proj", "fc": "mlp.c_fc", "out": "mlp.c_proj"}


def philox(seed, purpose, step, index):
    """Philox4x32-10: the 128 bits of block `index`, as four words."""
    c, k = [index & 0xFFFFFFFF, index >> 32, step, purpose], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def below(purpose, i, n):
    """Returns random number i of the first epoch, below n."""
    words = philox(SEED, purpose, 0, i >> 1)[2 * (i & 1):]
    return (words[0] << 32 | words[1]) % n


def places(n_tokens, steps):
    """Returns where the contexts of each step begin, [steps, BATCH]: samples in shuffled order, each a random place."""
    order = list(range((n_tokens - 1) // CONTEXT))
    assert steps * BATCH <= len(order), "more than an epoch"
    for i in range(len(order) - 1, 0, -1):
        j = below(SHUFFLE, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return [[below(PLACES, s, n_tokens - CONTEXT) for s in order[k * BATCH:(k + 1) * BATCH]] for k in range(steps)]


def reference_name(name):
    """Returns the name of a parameter of Gpt2 in the reference: blocks.0.fc.weight is transformer.h.0.mlp.c_fc.weight."""
    *block, layer, kind = name.split(".")
    return ".".join(["transformer", *(["h", block[1]] if block else []), NAMES[layer], kind])


def optimizers(model, muon):
    """Returns what updates the model, and copies of fused matrices to write back: [(parameter, its parts)]."""
    matrices = [p for n, p in model.named_parameters() if muon and n.startswith("blocks") and p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    groups = [{"params": [p for p in rest if (p.dim() == 2) == decays], "weight_decay": DECAY if decays else 0} for decays in (True, False)]
    out, parts = [torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)], []
    for p in matrices:
        pieces = [torch.nn.Parameter(piece) for piece in p.detach().chunk(3 if len(p) == 3 * p.shape[1] else 1)]  # views of p
        parts.append((p, pieces))
    if muon:
        pieces = [piece for _, some in parts for piece in some]
        out.append(torch.optim.Muon(pieces, weight_decay=DECAY, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"))
    return out, parts


def rate(k, steps):
    if k < WARMUP:
        return RATE * (k + 1) / (WARMUP + 1)
    return RATE * (MINIMUM + (1 - MINIMUM) * 0.5 * (1 + math.cos(math.pi * (k - WARMUP) / (steps - WARMUP))))


def curve(model, stream, begins, muon):
    """Trains the model. Returns the loss of each step."""
    updates, parts = optimizers(model, muon)
    losses = []
    for k, places_of_step in enumerate(begins):
        rows = torch.stack([stream[at:at + CONTEXT + 1] for at in places_of_step])
        model.zero_grad()
        loss = model.loss(rows[:, :-1], rows[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for p, pieces in parts:
            for piece, gradient in zip(pieces, p.grad.chunk(len(pieces))):
                piece.grad = gradient
        for optimizer in updates:
            for group in optimizer.param_groups:
                group["lr"] = rate(k, len(begins))
            optimizer.step()
        losses.append(loss.item())
    return losses


def ours(program, folder, optimizer, steps):
    """Trains with train_slm. Returns the loss of each step and the ids of the first batch."""
    sizes = f"--layers {LAYERS} --d-model {WIDTH} --heads {HEADS} --context {CONTEXT} --gelu erf --dropout 0 -b {BATCH} --seed {SEED}"
    schedule = f"--max-steps {steps} --warmup-steps {WARMUP} --learning-rate {RATE} --min-lr {MINIMUM} --weight-decay {DECAY} --grad-clip {CLIP}"
    command = f"{program} --data {folder}/prepared --base-checkpoint {folder}/start.safetensors -o {folder}/run --debug-dump {folder}/dump"
    words = f"{command} {sizes} {schedule} --sampling random --optimizer {optimizer} --log-interval 1 --device cpu".split()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in open(folder / "run" / "log.jsonl")]
    dump = load_file(folder / "dump")
    return [r["train/loss"] for r in records if r["kind"] == "train" and "train/loss" in r], dump


def main():
    program, optimizer = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "adamw"
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bible = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True, text=True).stdout
        (folder / "kjv.txt").write_text(bible)
        subprocess.run([program, "prepare", "--input", folder / "kjv.txt", "--output", folder / "prepared", "--vocabulary",
                        str(VOCABULARY), "--split-at", "line"], check=True, stdout=subprocess.DEVNULL)
        shards = sorted((folder / "prepared").glob("train_*.safetensors"))
        stream = torch.from_numpy(numpy.concatenate([load_file(s)["ids"] for s in shards]).astype(numpy.int64))
        model = Gpt2(VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT, bias=False, gelu="none", dropout=0.0)
        for p in model.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=0.02)
        save_file({reference_name(n): p.detach().numpy().copy() for n, p in model.named_parameters()}, folder / "start.safetensors")
        begins = places(len(stream), steps)
        mine, dump = ours(program, folder, optimizer, steps)
    first = torch.cat([stream[at:at + CONTEXT] for at in begins[0]])
    batch = next(v for n, v in dump.items() if n.endswith("batch.ids"))
    assert (first.numpy() == batch.reshape(-1)).all(), "the first batch has other ids than computed here"
    theirs = curve(model, stream, begins, optimizer == "muon")
    assert len(mine) == len(theirs) == steps
    differences = [abs(a - b) for a, b in zip(mine, theirs)]
    worst = max(range(steps), key=differences.__getitem__)
    print(f"{len(stream)} tokens, {steps} steps of {BATCH} x {CONTEXT}, {optimizer}, PyTorch {torch.__version__}")
    print(f"loss of the first step {mine[0]:.6f} and {theirs[0]:.6f}, of the last {mine[-1]:.6f} and {theirs[-1]:.6f}")
    print(f"largest difference {differences[worst]:.2g} in step {worst + 1}; mean {sum(differences) / steps:.2g}")
    if optimizer == "adamw" and differences[worst] > 1e-3:
        sys.exit("the curves differ by more than 1e-3")


if __name__ == "__main__":
    main()
