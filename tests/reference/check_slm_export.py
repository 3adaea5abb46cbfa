#!/usr/bin/env python3
"""Checks that an export of train_slm loads in the programs that it is made for, with equal logits.

    python3 tests/reference/check_slm_export.py FOLDER [LOGITS [TOLERANCE]]

FOLDER holds what `train_slm export` wrote: a GPT2LMHeadModel with its tokenizer (--format hf), or ckpt.pt (--format nanogpt),
which is loaded with torch.load(weights_only=True) and strictly into nanoGPT's shapes. LOGITS is a safetensors file with "ids"
[T] and "logits" [T, V] of the exported model. TOLERANCE is the largest allowed difference of a logit, by default 1e-5. A folder
of Hugging Face's is computed twice: by slm_gpt2.py, and by the package transformers.
"""
import json
import os
import sys

import slm_gpt2
import torch
from safetensors.torch import load_file

LINEARS = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def shapes(c, biases):
    """The state dict of a GPT2LMHeadModel with these sizes, without its head."""
    width = c["n_embd"]
    result = {"transformer.wte.weight": [c["vocab_size"], width], "transformer.wpe.weight": [c["n_positions"], width]}
    matrices = {"attn.c_attn": [width, 3 * width], "attn.c_proj": [width, width]}
    matrices |= {"mlp.c_fc": [width, 4 * width], "mlp.c_proj": [4 * width, width]}
    vectors = ["transformer.ln_f"]
    for layer in range(c["n_layer"]):
        vectors += [f"transformer.h.{layer}.ln_1", f"transformer.h.{layer}.ln_2"]
        for name, shape in matrices.items():
            result[f"transformer.h.{layer}.{name}.weight"] = shape
            if biases:
                result[f"transformer.h.{layer}.{name}.bias"] = shape[1:]
    for name in vectors:
        result |= {f"{name}.weight": [width], f"{name}.bias": [width]} if biases else {f"{name}.weight": [width]}
    return result


def check_shapes(weights, wanted):
    if {name: list(tensor.shape) for name, tensor in weights.items()} != wanted:
        sys.exit(f"other tensors than expected: {sorted(set(wanted) ^ set(weights))}, or other shapes")
    print(f"all {len(wanted)} tensors have the names and shapes")


def with_transformers(folder, ids):
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    assert isinstance(model, transformers.GPT2LMHeadModel)
    assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr(), "the head is not tied"
    if os.path.exists(f"{folder}/tokenizer.json"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        print(f"tokenizer of {len(tokenizer)} tokens: {tokenizer.special_tokens_map}")
        assert len(tokenizer) <= model.config.vocab_size
        for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
            assert getattr(tokenizer, role) == getattr(model.config, role), role
    with torch.no_grad():
        return model(ids[None]).logits[0]


def of_nanogpt(path, ids):
    checkpoint = torch.load(path, weights_only=True)
    print({name: value for name, value in checkpoint.items() if name != "model"})
    c, weights = checkpoint["model_args"], dict(checkpoint["model"])
    head = weights.pop("lm_head.weight")
    assert head.data_ptr() == weights["transformer.wte.weight"].data_ptr(), "the head is not tied"
    c["n_positions"] = c["block_size"]
    turned = {name: tensor.t() if name.endswith(LINEARS) else tensor for name, tensor in weights.items()}
    check_shapes(turned, shapes(c, c["bias"]))
    for name, shape in shapes(c, True).items():
        turned.setdefault(name, torch.zeros(shape))
    return slm_gpt2.logits(turned, ids, c["n_head"], "gelu")


def of_gpt2(folder, ids):
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    weights = load_file(f"{folder}/model.safetensors")
    check_shapes(weights, shapes(config, True))
    ours = slm_gpt2.logits(weights, ids, config["n_head"], config["activation_function"])
    theirs = with_transformers(folder, ids)
    print(f"slm_gpt2.py and transformers: largest difference {float((ours - theirs).abs().max()):.2e}")
    return theirs


def main():
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    folder, path = sys.argv[1], f"{sys.argv[1]}/ckpt.pt"
    golden = load_file(sys.argv[2]) if len(sys.argv) > 2 else {"ids": torch.arange(4)}
    ids = golden["ids"].long()
    theirs = of_nanogpt(path, ids) if os.path.exists(path) else of_gpt2(folder, ids)
    if len(sys.argv) == 2:
        return
    tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-5
    difference = float((golden["logits"] - theirs).abs().max())
    print(f"{len(ids)} rows of logits, largest difference {difference:.2e}")
    if not difference <= tolerance:
        sys.exit(f"larger than {tolerance:g}")


if __name__ == "__main__":
    main()
