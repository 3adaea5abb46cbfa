#!/usr/bin/env python3
"""Checks that a model.safetensors of the PSD trainer loads into PyTorch under the names of the reference, with equal results.

    python3 tests/reference/check_psd_export.py MODEL HEADS                         names and shapes, strictly
    python3 tests/reference/check_psd_export.py MODEL HEADS STORE PREDICTIONS [TOLERANCE]

MODEL is a pretrained model or a classifier, with a transformer or the CNN (HEADS 0); its other sizes follow from its tensors.
STORE is the prepared data (manifest.psd.safetensors). PREDICTIONS are those of a classifier of the trainer: a CSV with the
columns id (row of the manifest) and p_CLASS (without temperature), or a safetensors file with "logits", one row per row of
the store. TOLERANCE is the largest allowed difference of a probability or a logit. The default 1e-4 is the error of about
a hundred float32 roundings of values around 10; with 16-bit arithmetic expect 5e-2.
"""
import csv
import re
import sys

import psd_torch as psd
import torch
from safetensors.torch import load_file


def model_of(weights, heads):
    """Returns a model with the sizes of these tensors."""
    rows = lambda name: weights[name].shape[0] if name in weights else 0
    depth = lambda pattern: len([name for name in weights if re.fullmatch(pattern, name)])
    layers = depth(r"encoder\.layers\.\d+\.norm1\.weight")
    d = rows("patch_embed.projection.weight") or rows("encoder.projector.weight")
    encoder = (d, layers, heads, rows("encoder.layers.0.ffn.0.weight"))
    if "decoder.mask_token" not in weights:
        return psd.Classifier(*encoder, rows("classifier.head.0.weight"))
    decoder_layers = depth(r"decoder\.decoder\.layers\.\d+\.norm1\.weight")
    return psd.Mpae(*encoder, rows("decoder.input_proj.weight"), decoder_layers, rows("projection_head.net.2.weight"))


def predictions_of(path, store):
    """Returns the samples of the store, the predictions of the trainer for them, and whether these are logits."""
    if path.endswith(".safetensors"):
        return torch.arange(len(store["psd"])), load_file(path)["logits"], True
    with open(path, newline="") as file:
        lines = list(csv.DictReader(file))
    columns = [name for name in lines[0] if name.startswith("p_")]
    sample = {row: i for i, row in enumerate(store["row"].tolist())}
    if len(sample) < len(store["row"]):
        sys.exit(f"{path}: its ids are rows of the manifest, of which this store has several samples each (hop)")
    index = torch.tensor([sample[int(line["id"])] for line in lines])
    return index, torch.tensor([[float(line[name]) for name in columns] for line in lines]), False


def main():
    if len(sys.argv) not in (3, 5, 6):
        sys.exit(__doc__)
    path, heads = sys.argv[1], int(sys.argv[2])
    weights = load_file(path)
    model = model_of(weights, heads)
    model.load_state_dict(weights, strict=True)
    print(f"{path}: all {len(weights)} tensors have the reference's names and shapes")
    if len(sys.argv) == 3:
        return
    if isinstance(model, psd.Mpae):
        sys.exit(f"{path} is of pretraining; predictions are a classifier's")
    store = load_file(sys.argv[3])
    index, ours, logits = predictions_of(sys.argv[4], store)
    tolerance = float(sys.argv[5]) if len(sys.argv) > 5 else 1e-4
    with torch.no_grad():
        theirs = torch.cat([model.eval()(rows) for rows in store["psd"][index].split(1024)])
    difference = float((ours - (theirs if logits else theirs.softmax(1))).abs().max())
    print(f"{len(ours)} rows, largest difference {difference:.2e}; the same class in {(ours.argmax(1) == theirs.argmax(1)).sum()}")
    if not difference <= tolerance:
        sys.exit(f"larger than {tolerance:g}")


if __name__ == "__main__":
    main()
