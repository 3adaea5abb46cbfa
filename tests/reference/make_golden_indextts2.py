#!/usr/bin/env python3
"""Makes golden values for the networks of IndexTTS2's features in numpy and torch, float64.

    python make_golden_indextts2.py            writes golden/indextts2.safetensors, indextts2_real.safetensors (float32, int32)
    python make_golden_indextts2.py --check    also compares w2v-BERT with transformers

"indextts2" has tiny networks with random weights, under "w2v.", "codec.", "gpt." and "stats.", and the results of two
clips, each computed alone: "a.", 24 kHz, whose number of frames is odd, so that its last row is masked, and "b.", 16 kHz.
Of each: x (stacked features), hidden.N (the state after N layers), h, codes, z, margin (by how much the second code is
farther), conformer, conformer_mask, cond, emo. "batch." has what the two give padded to one length.

"indextts2_real" has the real shapes: a layer of w2v-BERT on 100 rows, of which the last is masked, of which some rows are
stored; the codec on 90 rows; conformer, latents and emotion of 41 rows, of which 40 are valid. Weights are a formula.
Element i of tensor number n, with 32-bit wrap-around:

    x = i 2654435761 + n 2246822519 + 374761393;  x ^= x >> 15;  x *= 2246822519;  x ^= x >> 13
    value = (float)(around + scale sqrt(12) (x / 2^32 - 1/2))

Tensors have numbers in the order in which draw_w2v, draw_codec and draw_voice draw them, from 1000, 2000 and 3000 on.
This takes 15 seconds and 4 GB.
"""
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

GOLDEN = pathlib.Path(__file__).parent / "golden"
LN_EPSILON, CODEC_EPSILON = 1e-5, 1e-6
HEAD = 64  # of the perceivers
RATE, BINS = 16000, 80
TINY = {
    "w2v": dict(hidden=32, heads=2, inner=48, layers=4, kernel=31, left=9, right=3),
    "codec": dict(hidden=32, dim=12, inner=20, layers=3, codebook=64, code_dim=8),
    "condition": dict(size=16, heads=4, inner=24, blocks=2, kernel=15, latents=4, dim=20),
    "emotion": dict(size=16, heads=2, inner=20, blocks=2, kernel=15, latents=1, dim=12),
    "positions": 40,
}
REAL = {
    "w2v": dict(hidden=1024, heads=16, inner=4096, layers=1, kernel=31, left=64, right=8),
    "codec": dict(hidden=1024, dim=384, inner=2048, layers=12, codebook=8192, code_dim=8),
    "condition": dict(size=512, heads=8, inner=2048, blocks=6, kernel=15, latents=32, dim=1280),
    "emotion": dict(size=512, heads=4, inner=1024, blocks=4, kernel=15, latents=1, dim=1024),
    "positions": 5000,
}
USED = 3  # layers of the tiny w2v-BERT that the features are behind; real: 17 of 24
NETS = (("conditioning_encoder.", "perceiver_encoder.", "condition"),
        ("emo_conditioning_encoder.", "emo_perceiver_encoder.", "emotion"))


# ---- weights, float32

class Normal:
    def __init__(self, seed):
        self.random, self.weights = numpy.random.default_rng(seed), {}

    def numbers(self, shape, scale, around):
        return (around + scale * self.random.standard_normal(shape)).astype(numpy.float32)

    def put(self, name, *shape, scale=None, around=0.0):
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:]))) if scale is None else scale
        self.weights[name] = torch.from_numpy(self.numbers(shape, scale, around))

    def norm(self, prefix, width):
        self.put(prefix + ".weight", width, scale=0.2, around=1.0)
        self.put(prefix + ".bias", width, scale=0.1)

    def linear(self, prefix, out, inner, bias=True, taps=()):
        self.put(prefix + ".weight", out, inner, *taps)
        if bias:
            self.put(prefix + ".bias", out, scale=0.1)

    def double(self, *prefixes):
        return {k: v.double() for k, v in self.weights.items() if k.startswith(prefixes or "")}


def formula(number, shape, scale=1.0, around=0.0):
    out = numpy.empty(math.prod(shape), numpy.float32)
    for begin in range(0, len(out), 1 << 24):
        i = numpy.arange(begin, min(begin + (1 << 24), len(out)), dtype=numpy.uint64).astype(numpy.uint32)
        x = i * numpy.uint32(2654435761) + numpy.uint32((number * 2246822519 + 374761393) & 0xffffffff)
        x ^= x >> numpy.uint32(15)
        x *= numpy.uint32(2246822519)
        x ^= x >> numpy.uint32(13)
        out[begin:begin + len(x)] = around + scale * math.sqrt(12) * (x / 2.0 ** 32 - 0.5)
    return out.reshape(shape)


class Formula(Normal):
    def __init__(self, first):
        self.number, self.weights = first, {}

    def numbers(self, shape, scale, around):
        self.number += 1
        return formula(self.number - 1, shape, scale, around)


def draw_w2v(g, c):
    h = c["hidden"]
    g.norm("feature_projection.layer_norm", 2 * BINS)
    g.linear("feature_projection.projection", h, 2 * BINS)
    g.put("masked_spec_embed", h, scale=1.0)
    for n in range(c["layers"]):
        p = f"encoder.layers.{n}."
        for f in ("ffn1", "ffn2"):
            g.norm(p + f + "_layer_norm", h)
            g.linear(p + f + ".intermediate_dense", c["inner"], h)
            g.linear(p + f + ".output_dense", h, c["inner"])
        g.norm(p + "self_attn_layer_norm", h)
        for m in ("q", "k", "v", "out"):
            g.linear(p + "self_attn.linear_" + m, h, h)
        g.put(p + "self_attn.distance_embedding.weight", c["left"] + c["right"] + 1, h // c["heads"], scale=0.7)
        g.norm(p + "conv_module.layer_norm", h)
        g.linear(p + "conv_module.pointwise_conv1", 2 * h, h, False, (1,))
        g.put(p + "conv_module.depthwise_conv.weight", h, 1, c["kernel"])
        g.norm(p + "conv_module.depthwise_layer_norm", h)
        g.linear(p + "conv_module.pointwise_conv2", h, h, False, (1,))
        g.norm(p + "final_layer_norm", h)
    return g


def draw_codec(g, c):
    g.linear("encoder.0.embed", c["dim"], c["hidden"], True, (7,))
    g.norm("encoder.0.norm", c["dim"])
    for n in range(c["layers"]):
        p = f"encoder.0.convnext.{n}."
        g.linear(p + "dwconv", c["dim"], 1, True, (7,))
        g.norm(p + "norm", c["dim"])
        g.linear(p + "pwconv1", c["inner"], c["dim"])
        g.linear(p + "pwconv2", c["dim"], c["inner"])
        g.put(p + "gamma", c["dim"], scale=0.2, around=0.5)
    g.norm("encoder.0.final_layer_norm", c["dim"])
    g.linear("encoder.1", c["hidden"], c["dim"])
    q = "quantizer.quantizers.0."
    g.put(q + "in_project.weight_g", c["code_dim"], 1, 1, scale=0.2, around=1.0)
    g.put(q + "in_project.weight_v", c["code_dim"], c["hidden"], 1)
    g.put(q + "in_project.bias", c["code_dim"], scale=0.1)
    g.put(q + "codebook.weight", c["codebook"], c["code_dim"], scale=1.0)
    return g


def positions(rows, size):
    angle = torch.arange(rows, dtype=torch.float32)[:, None] * torch.exp(
        torch.arange(0, size, 2, dtype=torch.float32) * -(math.log(10000.0) / size))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[None]


def draw_conformer(g, p, c, rows, inputs):
    s = c["size"]
    g.linear(p + "embed.conv.0", s, 1, True, (3, 3))
    g.linear(p + "embed.out.0", s, s * ((inputs - 1) // 2))
    g.weights[p + "embed.pos_enc.pe"] = positions(rows, s)
    g.norm(p + "after_norm", s)
    for n in range(c["blocks"]):
        r = f"{p}encoders.{n}."
        for m in ("norm_ff", "norm_mha", "norm_conv", "norm_final", "conv_module.norm"):
            g.norm(r + m, s)
        for m in ("q", "k", "v", "out"):
            g.linear(r + "self_attn.linear_" + m, s, s)
        g.linear(r + "self_attn.linear_pos", s, s, False)
        for m in "uv":
            g.put(r + "self_attn.pos_bias_" + m, c["heads"], s // c["heads"], scale=0.5)
        g.linear(r + "conv_module.pointwise_conv1", 2 * s, s, True, (1,))
        g.linear(r + "conv_module.depthwise_conv", s, 1, True, (c["kernel"],))
        g.linear(r + "conv_module.pointwise_conv2", s, s, True, (1,))
        g.linear(r + "feed_forward.w_1", c["inner"], s)
        g.linear(r + "feed_forward.w_2", s, c["inner"])


def draw_perceiver(g, p, c):
    d, wide, inner = c["dim"], c["heads"] * HEAD, int(c["dim"] * 2 * 2 / 3)
    g.put(p + "latents", c["latents"], d, scale=1.0)
    g.linear(p + "proj_context", d, c["size"])
    for n in (0, 1):
        r = f"{p}layers.{n}."
        g.linear(r + "0.to_q", wide, d, False)
        g.linear(r + "0.to_kv", 2 * wide, d, False)
        g.linear(r + "0.to_out", d, wide, False)
        g.linear(r + "1.0", 2 * inner, d)
        g.linear(r + "1.2", d, inner)
    g.put(p + "norm.gamma", d, scale=0.2, around=1.0)


def draw_voice(g, sizes):
    for conformer_prefix, perceiver_prefix, net in NETS:
        draw_conformer(g, conformer_prefix, sizes[net], sizes["positions"], sizes["w2v"]["hidden"])
        draw_perceiver(g, perceiver_prefix, sizes[net])
    width = sizes["condition"]["dim"]
    g.linear("emovec_layer", width, sizes["emotion"]["dim"])
    g.linear("emo_layer", width, width)
    return g


# ---- sounds and their features

def sound(rate, samples, seed):
    """A glide with noise and a silence of exact zeros; multiples of 2^-15, as a 16-bit file gives."""
    t = numpy.arange(samples) / rate
    x = 0.4 * numpy.sin(2 * numpy.pi * (180 * t + 900 * t * t))
    x += 0.1 * numpy.random.default_rng(seed).standard_normal(samples)
    x[samples // 3:samples // 3 + rate // 20] = 0
    return numpy.round(numpy.clip(x, -1, 1 - 2.0 ** -15) * 32768) / 32768


def resample(x, old, new):
    """A windowed sinc: squared cosine, six zeros on each side, roll-off 0.99."""
    g = math.gcd(old, new)
    old, new = old // g, new // g
    base = min(old, new) * 0.99
    width = math.ceil(6 * old / base)
    k = numpy.arange(-width, width + old)
    t = numpy.clip((-numpy.arange(new)[:, None] / new + k[None, :] / old) * base, -6, 6)
    h = numpy.cos(t * numpy.pi / 12) ** 2 * numpy.sinc(t) * (base / old)
    padded = numpy.concatenate([numpy.zeros(width), x, numpy.zeros(width + old)])
    count = (len(padded) - h.shape[1]) // old + 1
    rows = numpy.stack([padded[i * old:i * old + h.shape[1]] for i in range(count)])
    return (rows @ h.T).reshape(-1)[:math.ceil(new * len(x) / old)]


def mel(f):
    return 1127 * numpy.log1p(f / 700)


def filter_bank(x):
    """x in -1 .. 1 at 16 kHz -> natural logs [frames, 80], each column normalised over the clip."""
    x = x * 32768.0
    edges, bins = numpy.linspace(mel(20.0), mel(8000.0), BINS + 2), mel(numpy.arange(257) * (RATE / 512))
    up = (bins[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[None, 2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    filters = numpy.maximum(0, numpy.minimum(up, down))
    window = (0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(400) / 399)) ** 0.85
    out = numpy.empty((1 + (len(x) - 400) // 160, BINS))
    for i in range(len(out)):
        s = x[i * 160:i * 160 + 400]
        s = s - s.mean()
        s = numpy.concatenate([s[:1] * 0.03, s[1:] - 0.97 * s[:-1]])
        power = numpy.abs(numpy.fft.rfft(s * window, 512)) ** 2
        out[i] = numpy.log(numpy.maximum(power @ filters, 1.192092955078125e-07))
    return (out - out.mean(0)) / numpy.sqrt(out.var(0, ddof=1) + 1e-7)


def stack(features):
    """List of [F, 80] -> x [B, T, 160], mask [B, T]: padded with 1 to an even length, pairs of frames."""
    longest = max(len(f) for f in features)
    longest += longest % 2
    x, mask = torch.ones(len(features), longest, BINS).double(), torch.zeros(len(features), longest, dtype=torch.int32)
    for i, f in enumerate(features):
        x[i, :len(f)] = torch.from_numpy(f)
        mask[i, :len(f)] = 1
    return x.reshape(len(features), longest // 2, 2 * BINS), mask[:, 1::2]


# ---- the networks

def norm(x, w, p, epsilon=LN_EPSILON):
    return F.layer_norm(x, x.shape[-1:], w[p + ".weight"], w[p + ".bias"], epsilon)


def linear(x, w, p):
    weight = w[p + ".weight"]
    return F.linear(x, weight.flatten(1), w.get(p + ".bias"))


def convolution(x, w, p, before, after, groups=1):
    """x [B, T, C], padded with zeros."""
    x = F.pad(x.transpose(1, 2), (before, after))
    return F.conv1d(x, w[p + ".weight"], w.get(p + ".bias"), groups=groups).transpose(1, 2)


def w2v_layer(x, mask, w, p, c):
    def half_feed_forward(x, q):
        inner = F.silu(linear(norm(x, w, p + q + "_layer_norm"), w, p + q + ".intermediate_dense"))
        return 0.5 * linear(inner, w, p + q + ".output_dense")
    b, t, h = x.shape
    x = x + half_feed_forward(x, "ffn1")
    y = norm(x, w, p + "self_attn_layer_norm")
    q, k, v = (linear(y, w, p + "self_attn.linear_" + n).view(b, t, c["heads"], -1).transpose(1, 2) for n in "qkv")
    i = torch.arange(t)
    distance = (i[None, :] - i[:, None]).clamp(-c["left"], c["right"]) + c["left"]  # [query, key]: key - query
    e = w[p + "self_attn.distance_embedding.weight"][distance]                      # [query, key, size]
    s = (q @ k.transpose(2, 3) + torch.einsum("bhld,lrd->bhlr", q, e)) / math.sqrt(q.shape[-1])
    s = s.masked_fill(mask[:, None, None, :] == 0, -math.inf)
    y = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, h)
    x = x + linear(y, w, p + "self_attn.linear_out")
    y = norm(x, w, p + "conv_module.layer_norm") * mask[..., None]
    y = F.glu(linear(y, w, p + "conv_module.pointwise_conv1"), dim=-1)
    y = convolution(y, w, p + "conv_module.depthwise_conv", c["kernel"] - 1, 0, h)
    y = F.silu(norm(y, w, p + "conv_module.depthwise_layer_norm"))
    x = x + linear(y, w, p + "conv_module.pointwise_conv2")
    x = x + half_feed_forward(x, "ffn2")
    return norm(x, w, p + "final_layer_norm")


def w2v(x, mask, w, c):
    """The states: 0 before the layers, n after n layers."""
    x = linear(norm(x, w, "feature_projection.layer_norm"), w, "feature_projection.projection") * mask[..., None]
    states = [x]
    for n in range(c["layers"]):
        states.append(w2v_layer(states[-1], mask, w, f"encoder.layers.{n}.", c))
    return states


def codec_codes(h, w, c):
    """h [B, T, hidden] -> codes [B, T], the projection z [B, T, 8], and how much farther the second best is."""
    y = norm(convolution(h, w, "encoder.0.embed", 3, 3), w, "encoder.0.norm", CODEC_EPSILON)
    for n in range(c["layers"]):
        p = f"encoder.0.convnext.{n}."
        z = norm(convolution(y, w, p + "dwconv", 3, 3, c["dim"]), w, p + "norm", CODEC_EPSILON)
        y = y + w[p + "gamma"] * linear(F.gelu(linear(z, w, p + "pwconv1")), w, p + "pwconv2")
    y = linear(norm(y, w, "encoder.0.final_layer_norm", CODEC_EPSILON), w, "encoder.1")
    q = "quantizer.quantizers.0."
    v = w[q + "in_project.weight_v"]
    weight = (w[q + "in_project.weight_g"] * v / v.flatten(1).norm(dim=1).view(-1, 1, 1))[..., 0]
    z = F.linear(y, weight, w[q + "in_project.bias"])
    a, b = F.normalize(z, dim=-1), F.normalize(w[q + "codebook.weight"], dim=-1)
    distance = (a * a).sum(-1, keepdim=True) - 2 * a @ b.T + (b * b).sum(-1)
    two = distance.topk(2, dim=-1, largest=False).values
    return distance.argmin(-1), z, two[..., 1] - two[..., 0]


def conformer_block(y, mask, pe, w, q, c):
    b, t, size = y.shape
    z = norm(y, w, q + "norm_mha")
    a, k, v = (linear(z, w, q + "self_attn.linear_" + m).view(b, t, c["heads"], -1) for m in "qkv")
    r = linear(pe, w, q + "self_attn.linear_pos").view(t, c["heads"], -1)
    s = torch.einsum("bihd,bjhd->bhij", a + w[q + "self_attn.pos_bias_u"], k)
    s = s + torch.einsum("bihd,jhd->bhij", a + w[q + "self_attn.pos_bias_v"], r)
    s = (s / math.sqrt(size // c["heads"])).masked_fill(~mask[:, None, None], -math.inf).softmax(-1)
    y = y + linear(torch.einsum("bhij,bjhd->bihd", s, v).reshape(b, t, size), w, q + "self_attn.linear_out")
    m = q + "conv_module."
    z = F.glu(linear(norm(y, w, q + "norm_conv") * mask[..., None], w, m + "pointwise_conv1"), dim=-1)
    z = convolution(z, w, m + "depthwise_conv", c["kernel"] // 2, c["kernel"] // 2, size)
    z = linear(F.silu(norm(z, w, m + "norm")), w, m + "pointwise_conv2")
    y = y + z * mask[..., None]
    z = F.silu(linear(norm(y, w, q + "norm_ff"), w, q + "feed_forward.w_1"))
    return norm(y + linear(z, w, q + "feed_forward.w_2"), w, q + "norm_final")


def conformer(x, lengths, w, p, c):
    """x [B, T, hidden], lengths [B] -> y [B, T', size], mask [B, T']; T' = (T - 1) // 2."""
    y = F.relu(F.conv2d(x[:, None], w[p + "embed.conv.0.weight"], w[p + "embed.conv.0.bias"], stride=2))
    y = y.transpose(1, 2).flatten(2)  # column = channel * frequencies + frequency
    y = linear(y, w, p + "embed.out.0") * math.sqrt(c["size"])
    t = y.shape[1]
    mask = 2 * torch.arange(t)[None] + 2 < lengths[:, None]
    for n in range(c["blocks"]):
        y = conformer_block(y, mask, w[p + "embed.pos_enc.pe"][:, :t], w, f"{p}encoders.{n}.", c)
    return norm(y, w, p + "after_norm"), mask


def perceiver(x, mask, w, p, c):
    x = linear(x, w, p + "proj_context")
    b = x.shape[0]
    y = w[p + "latents"][None].expand(b, -1, -1)
    keep = F.pad(mask, (y.shape[1], 0), value=True)
    for n in (0, 1):
        q = f"{p}layers.{n}."
        both = torch.cat((y, x), 1)
        a = linear(y, w, q + "0.to_q").view(b, y.shape[1], -1, HEAD)
        k, v = (m.reshape(b, both.shape[1], -1, HEAD) for m in linear(both, w, q + "0.to_kv").chunk(2, -1))
        s = torch.einsum("bihd,bjhd->bhij", a, k) / math.sqrt(HEAD)
        s = s.masked_fill(~keep[:, None, None], -math.inf).softmax(-1)
        y = linear(torch.einsum("bhij,bjhd->bihd", s, v).flatten(2), w, q + "0.to_out") + y
        value, gate = linear(y, w, q + "1.0").chunk(2, -1)
        y = linear(F.gelu(gate) * value, w, q + "1.2") + y
    return F.normalize(y, dim=-1) * math.sqrt(c["dim"]) * w[p + "norm.gamma"]


def condition(h, lengths, w, sizes):
    """The context and its mask, and the latents."""
    y, mask = conformer(h, lengths, w, "conditioning_encoder.", sizes["condition"])
    return y, mask, perceiver(y, mask, w, "perceiver_encoder.", sizes["condition"])


def emotion(h, lengths, w, sizes):
    y, mask = conformer(h, lengths, w, "emo_conditioning_encoder.", sizes["emotion"])
    z = perceiver(y, mask, w, "emo_perceiver_encoder.", sizes["emotion"])[:, 0]
    return linear(linear(z, w, "emovec_layer"), w, "emo_layer")


# ---- the files

def save(name, tensors):
    out = {}
    for key, value in tensors.items():
        array = numpy.asarray(value)
        out[key] = numpy.ascontiguousarray(array, numpy.float32 if array.dtype.kind == "f" else numpy.int32)
    save_file(out, GOLDEN / name)


def transformers_w2v(w, c):
    from transformers import Wav2Vec2BertConfig, Wav2Vec2BertModel
    config = Wav2Vec2BertConfig(hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                                intermediate_size=c["inner"], conv_depthwise_kernel_size=c["kernel"],
                                left_max_position_embeddings=c["left"], right_max_position_embeddings=c["right"])
    config._attn_implementation = "eager"
    model = Wav2Vec2BertModel(config).double().eval()
    model.load_state_dict(w, strict=True)
    return model


def chain(features, w, stats):
    x, mask = stack(features)
    states = w2v(x, mask, w["w2v"], TINY["w2v"])
    h = (states[USED] - stats["mean"]) / stats["var"].sqrt()
    codes, z, margin = codec_codes(h, w["codec"], TINY["codec"])
    lengths = mask.sum(1)
    context, context_mask, latents = condition(h, lengths, w["gpt"], TINY)
    out = {f"hidden.{n}": state for n, state in enumerate(states)}
    return x, mask, out | dict(h=h, codes=codes, z=z, margin=margin, lengths=lengths, conformer=context,
                               conformer_mask=context_mask, cond=latents, emo=emotion(h, lengths, w["gpt"], TINY))


def make_tiny(check):
    drawn = {"w2v": draw_w2v(Normal(1), TINY["w2v"]), "codec": draw_codec(Normal(2), TINY["codec"]),
             "gpt": draw_voice(Normal(3), TINY)}
    w = {net: g.double() for net, g in drawn.items()}
    random, width = numpy.random.default_rng(4), TINY["w2v"]["hidden"]
    stats = {"mean": random.standard_normal(width).astype(numpy.float32) * numpy.float32(0.2),
             "var": random.uniform(0.3, 1.5, width).astype(numpy.float32)}
    out = {f"{net}.{name}": value for net, g in drawn.items() for name, value in g.weights.items()}
    out |= {f"stats.{name}": value for name, value in stats.items()}
    stats = {name: torch.from_numpy(value).double() for name, value in stats.items()}
    features = {"a": filter_bank(resample(sound(24000, 24000 * 67 // 100, 5), 24000, RATE)),
                "b": filter_bank(sound(RATE, 7600, 6))}
    for clip, f in features.items():
        x, mask, results = chain([f], w, stats)
        out |= {f"{clip}.x": x[0]} | {f"{clip}.{name}": value for name, value in results.items()}
        if check:
            model = transformers_w2v(w["w2v"], TINY["w2v"])
            with torch.no_grad():
                states = model(input_features=x, attention_mask=mask, output_hidden_states=True).hidden_states
            print(clip, "against transformers", [float((s - results[f"hidden.{n}"]).abs().max()) for n, s in enumerate(states)])
    results = chain(list(features.values()), w, stats)[2]
    out |= {f"batch.{name}": results[name] for name in ("codes", "cond", "emo")}
    save("indextts2.safetensors", out)


def make_real(check):
    normal = lambda number, rows: torch.from_numpy(formula(number, (1, rows, 1024))).double()
    w = draw_w2v(Formula(1000), REAL["w2v"]).double()
    mask = torch.ones(1, 100, dtype=torch.int32)
    mask[0, 99] = 0
    x = normal(1, 100) * mask[..., None]
    y = w2v_layer(x, mask, w, "encoder.layers.0.", REAL["w2v"])
    out = {"w2v.layer0": y[0, [0, 1, 50, 72, 73, 98, 99]]}
    if check:
        hide = torch.zeros(1, 1, 100, 100).double().masked_fill(mask[:, None, None] == 0, torch.finfo(torch.double).min)
        with torch.no_grad():
            z = transformers_w2v(w, REAL["w2v"]).encoder.layers[0](x, attention_mask=hide, conv_attention_mask=mask)
        print("a real layer against transformers", float(((z if torch.is_tensor(z) else z[0]) - y).abs().max()))
    w = draw_codec(Formula(2000), REAL["codec"]).double()
    h = normal(2, 90)
    codes, z, margin = codec_codes(h, w, REAL["codec"])
    out |= {"codec.z": z[0], "codec.codes": codes[0], "codec.margin": margin[0]}
    g, h, lengths = draw_voice(Formula(3000), REAL), h[:, :41], torch.tensor([40])
    y, mask, latents = condition(h, lengths, g.double("conditioning", "perceiver"), REAL)
    out |= {"gpt.conformer": y[0, [0, 9, 18, 19]], "gpt.cond": latents[0, [0, 1, 16, 31]]}
    out["gpt.emo"] = emotion(h, lengths, g.double("emo"), REAL)[0]
    save("indextts2_real.safetensors", out)


if __name__ == "__main__":
    make_tiny("--check" in sys.argv)
    make_real("--check" in sys.argv)
