"""Makes golden values for tests/gpt/test_golden.c with an independent implementation of the TTS GPT in PyTorch, float64.

    python make_golden.py          writes golden/*.safetensors (stored as float32 / int32)

The model here works on padded batches exactly as the reference trainer does: text and codes are padded with 0, the
padding is overwritten with the stop token, one more stop is appended, inputs get a start in front and targets another
stop behind, attention is causal without a padding mask, and losses are means over the valid positions.

 - "equal"    three samples with one text length. There is no text padding, and the padding of codes is last, where causal
              attention does not see it. So the padded batch must equal the packed one.
 - "unequal"  three samples with different text lengths. Here padded and packed batches differ on purpose (the reference
              lets codes attend to text padding), so every sample is computed alone and the token sums are combined.

 - "blocks"   stacks of nn.TransformerEncoderLayer of torch, for the other forms of the block: post-norm or pre-norm, exact
              GELU, with or without biases, causal or not, [out, in] weights.

 - "convolution"  Conv1d, BatchNorm1d and mean of torch: a stem and a residual block with a shortcut, in train mode (two
              batches, so that running statistics move twice) and then in eval mode. Rows are channels last.

 - "conv3d"   Conv3d, LeakyReLU and MaxPool3d of torch in the four forms of the FLIM network, and in one that no model has.

The first two have their batch, the losses, every gradient of 0.2 text_loss + 0.8 mel_loss, and the weights after five AdamW
steps: "equal" on its one batch, "unequal" with two accumulated micro-batches (equal, unequal) and frozen leading rows.
"""
import math
import pathlib

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

WIDTH, LAYERS, HEADS, TEXT, MEL, MAX_TEXT, MAX_MEL = 32, 3, 2, 50, 42, 14, 20
START_TEXT, STOP_TEXT, START_MEL, STOP_MEL = 0, 1, MEL - 2, MEL - 1
CONDITIONING = 32
TEXT_WEIGHT, MEL_WEIGHT = 0.2, 0.8
FROZEN_ROWS = 20
STEPS, WARMUP, TOTAL, LEARNING_RATE, WEIGHT_DECAY = 5, 2, 10, 1e-3, 0.01
CLIP = {"equal": 1.0, "unequal": 0.25}
torch.set_default_dtype(torch.float64)


def initial_weights():
    """Returns tensors with the names, shapes and order of the trained ones. Every value is random, so that no term of a
    gradient is zero."""
    shapes = {"text_embedding.weight": (TEXT + 1, WIDTH), "mel_embedding.weight": (MEL, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in (("ln_1", (WIDTH,)), ("attn.c_attn", (WIDTH, 3 * WIDTH)), ("attn.c_proj", (WIDTH, WIDTH)),
                            ("ln_2", (WIDTH,)), ("mlp.c_fc", (WIDTH, 4 * WIDTH)), ("mlp.c_proj", (4 * WIDTH, WIDTH))):
            shapes[f"gpt.h.{layer}.{name}.weight"] = shape
            shapes[f"gpt.h.{layer}.{name}.bias"] = shape[-1:]
    shapes |= {"gpt.ln_f.weight": (WIDTH,), "gpt.ln_f.bias": (WIDTH,),
               "mel_pos_embedding.emb.weight": (MAX_MEL + 3, WIDTH), "text_pos_embedding.emb.weight": (MAX_TEXT + 2, WIDTH),
               "final_norm.weight": (WIDTH,), "final_norm.bias": (WIDTH,),
               "text_head.weight": (TEXT + 1, WIDTH), "text_head.bias": (TEXT + 1,),
               "mel_head.weight": (MEL, WIDTH), "mel_head.bias": (MEL,), "speed_emb.weight": (2, WIDTH)}
    random = numpy.random.default_rng(20240611)
    weights = {}
    for name, shape in shapes.items():
        gain = ("ln_" in name or "norm" in name) and name.endswith(".weight")
        scale = 0.5 if "embedding" in name or "speed" in name else 0.2
        value = (random.normal(0, scale, shape) + gain).astype(numpy.float32)
        weights[name] = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    return weights


def make_batch(text_lengths, code_lengths, seed):
    random = numpy.random.default_rng(seed)
    n = len(text_lengths)
    return {"text_lengths": numpy.array(text_lengths, numpy.int32), "code_lengths": numpy.array(code_lengths, numpy.int32),
            "text_ids": random.integers(2, TEXT, (n, max(text_lengths))).astype(numpy.int32),
            "codes": random.integers(0, MEL - 2, (n, max(code_lengths))).astype(numpy.int32),
            "condition": random.normal(0, 1, (n, CONDITIONING, WIDTH)).astype(numpy.float32),
            "emotion": random.normal(0, 1, (n, WIDTH)).astype(numpy.float32)}


def inputs_and_targets(ids, lengths, start, stop):
    """Returns inputs and targets [n, L + 2] of [n, L], and the positions that count."""
    n, longest = ids.shape
    ids = numpy.where(numpy.arange(longest) < lengths[:, None], ids, stop)
    column = numpy.full((n, 1), stop)
    ids = numpy.concatenate([ids, column], 1)
    inputs = numpy.concatenate([numpy.full((n, 1), start), ids], 1)
    targets = numpy.concatenate([ids, column], 1)
    valid = numpy.arange(longest + 2) < lengths[:, None] + 1
    return torch.tensor(inputs, dtype=torch.long), torch.tensor(targets, dtype=torch.long), torch.tensor(valid)


def normalise(x, w, name):
    return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)


def transformer(x, w):
    n, length, _ = x.shape
    future = torch.full((length, length), -math.inf).triu(1)
    for layer in range(LAYERS):
        def conv1d(x, name):
            return x @ w[f"gpt.h.{layer}.{name}.weight"] + w[f"gpt.h.{layer}.{name}.bias"]

        q, k, v = (t.view(n, length, HEADS, -1).transpose(1, 2)
                   for t in conv1d(normalise(x, w, f"gpt.h.{layer}.ln_1"), "attn.c_attn").split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH / HEADS) + future
        heads = scores.softmax(3) @ v
        x = x + conv1d(heads.transpose(1, 2).reshape(n, length, WIDTH), "attn.c_proj")
        hidden = F.gelu(conv1d(normalise(x, w, f"gpt.h.{layer}.ln_2"), "mlp.c_fc"), approximate="tanh")
        x = x + conv1d(hidden, "mlp.c_proj")
    return normalise(x, w, "gpt.ln_f")


def sums(w, batch):
    """Returns sums over valid positions (text loss, mel loss, mel hits, text hits) and the two counts."""
    text, text_target, text_valid = inputs_and_targets(batch["text_ids"], batch["text_lengths"], START_TEXT, STOP_TEXT)
    mel, mel_target, mel_valid = inputs_and_targets(batch["codes"], batch["code_lengths"], START_MEL, STOP_MEL)
    n = len(text)
    condition = torch.tensor(batch["condition"], dtype=torch.float64)
    emotion = torch.tensor(batch["emotion"], dtype=torch.float64)
    # The packed trainer gets the sum of the two in float32.
    condition = (condition + emotion[:, None]).float().double()
    speed = w["speed_emb.weight"][[1, 0]].expand(n, 2, WIDTH)
    x = torch.cat([condition, speed,
                   w["text_embedding.weight"][text] + w["text_pos_embedding.emb.weight"][:text.shape[1]],
                   w["mel_embedding.weight"][mel] + w["mel_pos_embedding.emb.weight"][:mel.shape[1]]], 1)
    hidden = normalise(transformer(x, w)[:, CONDITIONING + 2:], w, "final_norm")
    text_logits = F.linear(hidden[:, :text.shape[1]], w["text_head.weight"], w["text_head.bias"])
    mel_logits = F.linear(hidden[:, -mel.shape[1]:], w["mel_head.weight"], w["mel_head.bias"])
    text_ce = F.cross_entropy(text_logits[text_valid], text_target[text_valid], reduction="sum")
    mel_ce = F.cross_entropy(mel_logits[mel_valid], mel_target[mel_valid], reduction="sum")
    mel_hits = (mel_logits.argmax(2) == mel_target)[mel_valid].sum()
    text_hits = (text_logits.argmax(2) == text_target)[text_valid].sum()
    return torch.stack([text_ce, mel_ce, mel_hits.double(), text_hits.double()]), int(text_valid.sum()), int(mel_valid.sum())


def one_sample(batch, i):
    text, codes = batch["text_lengths"][i], batch["code_lengths"][i]
    return {"text_lengths": batch["text_lengths"][i:i + 1], "code_lengths": batch["code_lengths"][i:i + 1],
            "text_ids": batch["text_ids"][i:i + 1, :text], "codes": batch["codes"][i:i + 1, :codes],
            "condition": batch["condition"][i:i + 1], "emotion": batch["emotion"][i:i + 1]}


def means(w, batch, padded):
    """text_loss, mel_loss, mel_top1, text_top1."""
    parts = [sums(w, batch)] if padded else [sums(w, one_sample(batch, i)) for i in range(len(batch["text_lengths"]))]
    text, mel = sum(p[1] for p in parts), sum(p[2] for p in parts)
    return sum(p[0] for p in parts) / torch.tensor([text, mel, mel, text])


def objective(w, batch, padded):
    values = means(w, batch, padded)
    return TEXT_WEIGHT * values[0] + MEL_WEIGHT * values[1]


def five_steps(w, micro_batches, clip, frozen):
    """Trains on micro_batches, [(batch, padded)]. Returns the final weights and the gradient norms, without frozen rows."""
    w = {name: value.detach().clone().requires_grad_() for name, value in w.items()}
    start = {name: value.detach().clone() for name, value in w.items()}
    optimizer = torch.optim.AdamW(w.values(), lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=WEIGHT_DECAY)
    norms = []
    for k in range(STEPS):
        progress = (k - WARMUP) / max(1, TOTAL - WARMUP)
        factor = k / max(1, WARMUP) if k < WARMUP else max(0.0, 0.5 * (1 + math.cos(math.pi * progress)))
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * factor
        optimizer.zero_grad()
        for batch, padded in micro_batches:
            (objective(w, batch, padded) / len(micro_batches)).backward()
        for name in ("text_embedding.weight", "text_head.weight", "text_head.bias"):
            w[name].grad[:frozen] = 0
        norms.append(float(torch.nn.utils.clip_grad_norm_(w.values(), clip)))
        optimizer.step()
        with torch.no_grad():
            for name in ("text_embedding.weight", "text_head.weight", "text_head.bias"):
                w[name][:frozen] = start[name][:frozen]
    return w, norms


def block_cases():
    """Sequences of 5, 1 and 9 rows through two layers each; the loss is the sum of output times a given cotangent."""
    out, lengths = {"lengths": numpy.array([5, 1, 9], numpy.int32)}, [5, 1, 9]
    for case, (norm_first, bias, causal) in {"post": (False, True, False), "plain": (True, False, True),
                                             "pre": (True, True, False)}.items():
        torch.manual_seed(7)
        layer = torch.nn.TransformerEncoderLayer(32, 2, 40, dropout=0, activation="gelu", batch_first=True,
                                                 norm_first=norm_first, bias=bias)
        stack = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        with torch.no_grad():
            for name, p in stack.named_parameters():
                p.copy_((0.25 * torch.randn(p.shape) + ("norm" in name and "weight" in name)).float())
        x = torch.randn(sum(lengths), 32).float().double().requires_grad_()
        dy = torch.randn(sum(lengths), 32).float().double()
        mask = lambda n: torch.full((n, n), -math.inf).triu(1) if causal else None
        y = torch.cat([stack(part[None], mask=mask(len(part)))[0] for part in x.split(lengths)])
        (y * dy).sum().backward()
        for name, value in {"x": x, "dy": dy, "y": y, "dx": x.grad}.items():
            out[f"{case}.{name}"] = value.detach().numpy().astype(numpy.float32)
        for name, p in stack.named_parameters():
            out[f"{case}.{name}"] = p.detach().numpy().astype(numpy.float32)
            out[f"{case}.grad.{name}"] = p.grad.numpy().astype(numpy.float32)
    return out


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        convolution = lambda i, o, taps, stride: torch.nn.Conv1d(i, o, taps, stride, taps // 2, bias=False)
        self.stem, self.stem_norm = convolution(1, 24, 7, 2), torch.nn.BatchNorm1d(24)
        self.wide, self.wide_norm = convolution(24, 40, 3, 2), torch.nn.BatchNorm1d(40)
        self.same, self.same_norm = convolution(40, 40, 3, 1), torch.nn.BatchNorm1d(40)
        self.shortcut, self.shortcut_norm = convolution(24, 40, 1, 2), torch.nn.BatchNorm1d(40)

    def forward(self, x):
        x = F.gelu(self.stem_norm(self.stem(x)))
        branch = self.same_norm(self.same(F.gelu(self.wide_norm(self.wide(x)))))
        return F.gelu(branch + self.shortcut_norm(self.shortcut(x))).mean(2)


def convolution_case():
    """Five sequences of 37 numbers; the loss is the sum of output times a given cotangent, gradients are of the second batch."""
    torch.manual_seed(11)
    model, out = Convolutions(), {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((0.3 * torch.randn(p.shape) + ("norm.weight" in name)).float())
    for name, p in model.named_parameters():
        out[name] = p.detach().flatten(1) if p.dim() == 3 else p.detach()
    batches = [(3 * torch.randn(5, 1, 37) + 20).float().double() for _ in range(2)]
    dy = torch.randn(5, 40).float().double()
    model(batches[0])
    y = model(batches[1])
    (y * dy).sum().backward()
    out |= {"first": batches[0].reshape(-1, 1), "second": batches[1].reshape(-1, 1), "y": y.detach(), "dy": dy}
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.flatten(1) if p.dim() == 3 else p.grad
    out |= {name: buffer for name, buffer in model.named_buffers() if "running" in name}
    out["eval.y"] = model.eval()(batches[1]).detach()
    return {name: value.numpy().astype(numpy.float32) for name, value in out.items()}


def conv3d_cases():
    """Inputs and outputs are [n, channels, t, h, w] turned to rows of channels; the loss is the sum of output times a cotangent."""
    rows = lambda t: t.detach().movedim(1, -1).flatten(0, -2)
    out = {}
    for case, inputs, outputs, size, taps, stride, padding in (("stem", 2, 8, (9, 3, 2), (7, 1, 1), (1, 1, 1), (3, 0, 0)),
                                                               ("halves", 8, 8, (7, 2, 3), (3, 1, 1), (2, 1, 1), (1, 0, 0)),
                                                               ("block", 8, 16, (4, 5, 6), (3, 3, 3), (1, 2, 2), (1, 1, 1)),
                                                               ("shortcut", 8, 16, (4, 5, 6), (1, 1, 1), (1, 2, 2), (0, 0, 0)),
                                                               ("odd", 3, 5, (6, 7, 8), (4, 2, 3), (3, 1, 2), (2, 0, 1))):
        torch.manual_seed(len(case))
        model = torch.nn.Conv3d(inputs, outputs, taps, stride, padding)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_((0.3 * torch.randn(p.shape)).float())
        x = torch.randn(2, inputs, *size).float().double().requires_grad_()
        y = model(x)
        pooled = F.max_pool3d(F.leaky_relu(y, 0.01), (2, 1, 1), (2, 1, 1))
        dpooled = torch.randn(pooled.shape).float().double()
        (pooled * dpooled).sum().backward()
        values = {"x": rows(x), "w": model.weight.flatten(1), "bias": model.bias, "y": rows(y), "pooled": rows(pooled),
                  "dpooled": rows(dpooled), "dx": rows(x.grad), "dw": model.weight.grad.flatten(1), "dbias": model.bias.grad}
        out |= {f"{case}.{name}": value.detach().contiguous().numpy().astype(numpy.float32) for name, value in values.items()}
    return out


def main():
    folder = pathlib.Path(__file__).parent / "golden"
    folder.mkdir(exist_ok=True)
    w = initial_weights()
    single = lambda t: t.detach().numpy().astype(numpy.float32)
    save_file({name: single(value) for name, value in w.items()}, folder / "weights.safetensors")
    save_file(block_cases(), folder / "blocks.safetensors")
    save_file(conv3d_cases(), folder / "conv3d.safetensors")
    save_file(convolution_case(), folder / "convolution.safetensors")

    equal, unequal = make_batch([5, 5, 5], [7, 4, 6], 1), make_batch([3, 6, 1], [5, 9, 1], 2)
    difference = (means(w, equal, True) - means(w, equal, False)).abs().max().item()
    assert difference < 1e-12, f"padded and single samples differ by {difference} at equal text lengths"
    difference = (means(w, unequal, True) - means(w, unequal, False)).abs().max().item()
    assert difference > 1e-6, "text padding should be visible at unequal lengths"

    for name, batch, padded, steps, frozen in (("equal", equal, True, [(equal, True)], 0),
                                               ("unequal", unequal, False, [(equal, True), (unequal, False)], FROZEN_ROWS)):
        gradients = torch.autograd.grad(objective(w, batch, padded), list(w.values()))
        after, norms = five_steps(w, steps, CLIP[name], frozen)
        out = {f"batch.{key}": value for key, value in batch.items()}
        out["means"] = single(means(w, batch, padded))
        out["norms"] = numpy.array(norms, numpy.float32)
        out |= {f"grad.{key}": single(value) for key, value in zip(w, gradients)}
        out |= {f"after.{key}": single(value) for key, value in after.items()}
        save_file(out, folder / f"{name}.safetensors")
        change = max(float((after[key] - w[key]).detach().norm() / w[key].detach().norm()) for key in w)
        print(name, "means", out["means"], "norms", out["norms"], "largest relative change in five steps", change)


if __name__ == "__main__":
    main()
