#!/usr/bin/env python3
"""Checks that PyTorch loads a .pth of the FLIM trainer as a checkpoint of the reference network.

    python3 tests/reference/check_cv_export.py best_model_fold_D1.pth                   names, shapes, order, optimizer
    python3 tests/reference/check_cv_export.py best_model_fold_D1.pth CELLS [TOLERANCE]

Loads the file with weights_only, its model_state_dict strictly, and its optimizer_state_dict into Adam, which then makes a
step. CELLS: a safetensors file with "counts" [cells, bins, side, side] and "logits" [cells], the logits of the trainer in
evaluation. TOLERANCE: the largest allowed difference of a logit. The default 1e-4 is many times the error of float32 (2e-6
were measured against float64); with 16-bit arithmetic expect 2e-2.
"""
import sys

import cv_torch as flim
import torch
from safetensors.torch import load_file


def model_of(weights):
    rows = lambda name: weights[f"{name}.weight"].shape[0]
    return flim.Flim(channels=(rows("stem.0"), rows("res_block2.conv1"), rows("res_block3.conv1")))


def cells_of(counts):
    counts = counts.float()
    footprint = (counts.sum(1, keepdim=True) > 0).expand_as(counts)
    return torch.stack([torch.log1p(counts) / 10, footprint.float()], 1)


def check_optimizer(path, model, state):
    parameters = list(model.parameters())
    moments = state["state"]
    for number, parameter in enumerate(parameters):
        for name in ("exp_avg", "exp_avg_sq"):
            if moments[number][name].shape != parameter.shape:
                sys.exit(f"{path}: {name} of parameter {number} is {list(moments[number][name].shape)}, not {list(parameter.shape)}")
    groups = state["param_groups"]
    if sorted(number for group in groups for number in group["params"]) != list(range(len(parameters))):
        sys.exit(f"{path}: its groups do not hold each of the {len(parameters)} parameters once")
    if any(group["decoupled_weight_decay"] for group in groups):
        sys.exit(f"{path}: its weight decay is decoupled, the reference's is part of the gradients")
    parts = [{"params": [parameters[number] for number in group["params"]]} for group in groups]
    optimizer = torch.optim.Adam(parts)
    optimizer.load_state_dict(state)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    first, steps = optimizer.param_groups[0], {float(s["step"]) for s in optimizer.state.values()}
    print(f"Adam took the moments of {len(parameters)} parameters and made step {steps}: rate {first['lr']:g} of "
          f"{first['initial_lr']:g}, betas {first['betas']}, decay {first['weight_decay']:g}")


def main():
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    path = sys.argv[1]
    checkpoint = torch.load(path, weights_only=True)
    weights = checkpoint["model_state_dict"]
    model = model_of(weights)
    if list(weights) != list(model.state_dict()):
        sys.exit(f"{path}: its tensors have other names, or another order, than the reference's")
    model.load_state_dict(weights, strict=True)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{path}: {len(weights)} tensors, {parameters} parameters, all of the reference's names, shapes and order")
    print(", ".join(f"{key} {value}" for key, value in checkpoint.items() if not isinstance(value, dict)))
    if len(sys.argv) > 2:
        cells = load_file(sys.argv[2])
        tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-4
        with torch.no_grad():
            difference = float((model.eval()(cells_of(cells["counts"])) - cells["logits"].flatten()).abs().max())
        print(f"{len(cells['counts'])} cells, largest difference of a logit {difference:.2e}")
        if not difference <= tolerance:
            sys.exit(f"larger than {tolerance:g}")
    if "optimizer_state_dict" in checkpoint:
        check_optimizer(path, model, checkpoint["optimizer_state_dict"])


if __name__ == "__main__":
    main()
