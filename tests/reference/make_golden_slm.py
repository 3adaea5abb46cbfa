"""Makes golden values for tests/slm with an independent implementation of the text GPT in PyTorch, float64.

    python make_golden_slm.py          writes golden/slm.safetensors (stored as float32 / int32)

One stream of ids has five documents, an end-of-text id before each and one after the last. Position p + 1 is the target
of position p. The stream is cut into sequences in two ways:
"packed", into whole contexts, and "separate", at the documents' ends. Attention is causal inside a sequence; positions
count from 0 in each. Two models share their matrices:

 - "plain"   no biases, exact GELU, 4 heads; gradients and steps on the packed sequences.
 - "biased"  biases, GELU by tanh, 2 heads; gradients and steps on the separate ones.

Of both: loss and hits of both cuts; of their own cut also every gradient of the mean loss, and after five steps of AdamW
and of Muon the weights, the losses and the norms before clipping. AdamW is torch's. Muon is written out here and compared
with torch's own, which computes its Newton-Schulz steps in bf16; a fused matrix q | k | v is three matrices, and tables,
norms and biases take AdamW.
"""
import math
import pathlib

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

WIDTH, LAYERS, VOCABULARY, CONTEXT = 32, 2, 53, 12
END_OF_TEXT, DOCUMENTS = 52, [12, 5, 2, 9, 8]
HEADS = {"plain": 4, "biased": 2}
STEPS, WARMUP, TOTAL, LEARNING_RATE, MINIMUM, WEIGHT_DECAY, CLIP = 5, 2, 10, 1e-3, 1e-4, 0.1, 1.0
MOMENTUM, COEFFICIENTS, ITERATIONS = 0.95, (3.4445, -4.7750, 2.0315), 5
torch.set_default_dtype(torch.float64)


def initial_weights():
    """Returns the tensors of the biased model. Every value is random, so that no term of a gradient is zero."""
    shapes = {"transformer.wte.weight": (VOCABULARY, WIDTH), "transformer.wpe.weight": (CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in (("ln_1", (WIDTH,)), ("attn.c_attn", (3 * WIDTH, WIDTH)), ("attn.c_proj", (WIDTH, WIDTH)),
                            ("ln_2", (WIDTH,)), ("mlp.c_fc", (4 * WIDTH, WIDTH)), ("mlp.c_proj", (WIDTH, 4 * WIDTH))):
            shapes[f"transformer.h.{layer}.{name}.weight"] = shape
            shapes[f"transformer.h.{layer}.{name}.bias"] = shape[:1]
    shapes |= {"transformer.ln_f.weight": (WIDTH,), "transformer.ln_f.bias": (WIDTH,)}
    random = numpy.random.default_rng(20240917)
    weights = {}
    for name, shape in shapes.items():
        gain = ".ln_" in name and name.endswith(".weight")
        scale = 0.5 if "wte" in name or "wpe" in name else 0.2
        weights[name] = torch.tensor((random.normal(0, scale, shape) + gain).astype(numpy.float32), dtype=torch.float64)
    return weights


def model_weights(weights, model):
    return {name: value.clone().requires_grad_() for name, value in weights.items() if model == "biased" or "bias" not in name}


def cuts():
    ends = numpy.cumsum(DOCUMENTS)
    return {"packed": list(range(0, int(ends[-1]) + 1, CONTEXT)), "separate": [0, *ends.tolist()]}


def forward(w, model, stream, offsets):
    """Returns the loss per row and the hits. All rows are one matrix; a mask keeps the sequences apart."""
    sequence = torch.bucketize(torch.arange(len(stream) - 1), torch.tensor(offsets[1:]), right=True)
    position = torch.arange(len(stream) - 1) - torch.tensor(offsets)[sequence]
    seen = (sequence[:, None] == sequence) & (position[:, None] >= position)
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w.get(f"{name}.bias"), 1e-5)
    linear = lambda x, name: F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))
    x = w["transformer.wte.weight"][stream[:-1]] + w["transformer.wpe.weight"][position]
    for layer in range(LAYERS):
        at = f"transformer.h.{layer}"
        q, k, v = (t.view(len(x), HEADS[model], -1).transpose(0, 1)
                   for t in linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn").split(WIDTH, 1))
        scores = (q @ k.transpose(1, 2) / math.sqrt(WIDTH / HEADS[model])).masked_fill(~seen, -math.inf)
        x = x + linear((scores.softmax(2) @ v).transpose(0, 1).reshape(len(x), WIDTH), f"{at}.attn.c_proj")
        hidden = F.gelu(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), approximate="tanh" if model == "biased" else "none")
        x = x + linear(hidden, f"{at}.mlp.c_proj")
    logits = norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T
    return F.cross_entropy(logits, stream[1:], reduction="none"), logits.argmax(1) == stream[1:]


def rate(k):
    if k < WARMUP:
        return LEARNING_RATE * (k + 1) / (WARMUP + 1)
    return MINIMUM + 0.5 * (1 + math.cos(math.pi * (k - WARMUP) / (TOTAL - WARMUP))) * (LEARNING_RATE - MINIMUM)


def orthogonal(x):
    """Returns nearly the orthogonal factor of x, whose singular values the steps drive to about 1."""
    a, b, c = COEFFICIENTS
    wide = x if x.shape[0] <= x.shape[1] else x.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = wide @ wide.T
        wide = a * wide + (b * gram + c * gram @ gram) @ wide
    return wide if x.shape[0] <= x.shape[1] else wide.T


def muon_update(p, gradient, momentum, lr):
    momentum.mul_(MOMENTUM).add_(gradient)
    p *= 1 - lr * WEIGHT_DECAY
    p -= lr * 0.2 * math.sqrt(max(p.shape)) * orthogonal(gradient + MOMENTUM * momentum)


def compare_with_torch():
    torch.manual_seed(1)
    for shape in ((32, 32), (128, 32), (32, 128)):
        p = torch.randn(shape).float().requires_grad_()
        mine, momentum = p.detach().double(), torch.zeros(shape)
        theirs = torch.optim.Muon([p], lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, momentum=MOMENTUM, nesterov=True,
                                  ns_coefficients=COEFFICIENTS, ns_steps=ITERATIONS, adjust_lr_fn="match_rms_adamw")
        start = mine.clone()
        for _ in range(3):
            p.grad = torch.randn(shape).float()
            theirs.step()
            muon_update(mine, p.grad.double(), momentum, LEARNING_RATE)
        error = float((mine - p.detach()).norm() / (mine - start).norm())
        print(f"Muon {shape}: the moves differ from those of torch's bf16 by {error:.2g}")
        assert error < 0.02


def steps(weights, model, stream, offsets, muon):
    """Trains. Returns the final weights, the losses and the norms before clipping."""
    w = model_weights(weights, model)
    blocks = [name for name in w if muon and w[name].dim() == 2 and ".h." in name]
    rest = [name for name in w if name not in blocks]
    groups = [{"params": [w[name] for name in rest if (w[name].dim() == 2) == decayed],
               "weight_decay": WEIGHT_DECAY if decayed else 0} for decayed in (True, False)]
    adamw = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    momentum = {name: torch.zeros_like(w[name]) for name in blocks}
    losses, norms = [], []
    for k in range(STEPS):
        for p in w.values():
            p.grad = None
        loss = forward(w, model, stream, offsets)[0].mean()
        loss.backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in w.values()))
        for p in w.values():
            p.grad *= min(1, CLIP / norm)
        for group in adamw.param_groups:
            group["lr"] = rate(k)
        adamw.step()
        with torch.no_grad():
            for name in blocks:
                parts = 3 if "c_attn" in name else 1
                for p, g, m in zip(*(t.chunk(parts) for t in (w[name], w[name].grad, momentum[name]))):
                    muon_update(p, g, m, rate(k))
        losses.append(loss.item())
        norms.append(norm)
    return w, losses, norms


def main():
    compare_with_torch()
    single = lambda t: numpy.asarray(t.detach() if torch.is_tensor(t) else t).astype(numpy.float32)
    random, weights = numpy.random.default_rng(7), initial_weights()
    ids = random.integers(0, END_OF_TEXT, sum(DOCUMENTS) + 1)
    ids[cuts()["separate"]] = END_OF_TEXT
    stream = torch.tensor(ids)
    out = {"stream": stream.numpy().astype(numpy.int32), "rates": single([rate(k) for k in range(STEPS)])}
    out |= {f"offsets.{name}": numpy.array(offsets, numpy.int32) for name, offsets in cuts().items()}
    out |= {f"weights.{name}": single(value) for name, value in weights.items()}
    for model, own in (("plain", "packed"), ("biased", "separate")):
        for cut, offsets in cuts().items():
            w = model_weights(weights, model)
            losses, hits = forward(w, model, stream, offsets)
            out[f"{model}.{cut}.means"] = single([losses.mean().item(), hits.double().mean().item()])
            if cut != own:
                continue
            losses.mean().backward()
            out |= {f"{model}.grad.{name}": single(value.grad) for name, value in w.items()}
            for optimizer in ("adamw", "muon"):
                after, losses, norms = steps(weights, model, stream, offsets, optimizer == "muon")
                prefix = f"{model}.{optimizer}"
                out |= {f"{prefix}.losses": single(losses), f"{prefix}.norms": single(norms)}
                out |= {f"{prefix}.after.{name}": single(value) for name, value in after.items()}
                print(prefix, "hits", int(hits.sum()), "losses", losses, "norms", norms)
    save_file(out, pathlib.Path(__file__).parent / "golden" / "slm.safetensors")


if __name__ == "__main__":
    main()
