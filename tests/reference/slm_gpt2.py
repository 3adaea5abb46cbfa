"""GPT-2 in float64 from its published equations, in the layout of Hugging Face's files: layers compute x W + b."""
import torch


def logits(weights, ids, heads, activation):
    """weights: named as GPT2LMHeadModel's state dict; ids [T]; activation: "gelu" (exact) or "gelu_new". Returns [T, V]."""
    w = {name: tensor.double() for name, tensor in weights.items()}
    width = w["transformer.wte.weight"].shape[1]
    norm = lambda name, x: torch.nn.functional.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)
    linear = lambda name, x: x @ w[f"{name}.weight"] + w[f"{name}.bias"]
    gelu = lambda x: torch.nn.functional.gelu(x, approximate={"gelu": "none", "gelu_new": "tanh"}[activation])
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][: len(ids)]
    future = torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1)
    layer = 0
    while f"transformer.h.{layer}.ln_1.weight" in w:
        block = f"transformer.h.{layer}"
        q, k, v = linear(f"{block}.attn.c_attn", norm(f"{block}.ln_1", x)).split(width, 1)
        q, k, v = (t.view(len(ids), heads, -1).transpose(0, 1) for t in (q, k, v))
        scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(future, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(ids), width)
        x = x + linear(f"{block}.attn.c_proj", mixed)
        x = x + linear(f"{block}.mlp.c_proj", gelu(linear(f"{block}.mlp.c_fc", norm(f"{block}.ln_2", x))))
        layer += 1
    return norm("transformer.ln_f", x) @ w["transformer.wte.weight"].t()
