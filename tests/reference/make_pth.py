"""Writes the tiny .pth files that the tests read, and what must be found in them, as safetensors.

    python3 tests/reference/make_pth.py tests/reference/golden

torch_protocol2.pth, torch_protocol4.pth: a nested training checkpoint with every element type, strided and shared
views, parameters, counters, numpy scalars and generator states. torch_expected.safetensors: its tensors under dotted
names, written by the safetensors library.
"""

import collections
import sys

import numpy
import safetensors.torch
import torch


def build():
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    matrix = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7
    model = module.state_dict()  # an OrderedDict with attributes; BatchNorm brings an int64 counter without dimensions
    model["half"] = torch.tensor([1.5, -0.0, 6e-8, 65504.0], dtype=torch.float16)
    model["bfloat"] = torch.randn(2, 2).to(torch.bfloat16)
    model["double"] = torch.randn(3, dtype=torch.float64)
    model["long"] = torch.tensor([[-1, 2**40]])
    model["int"] = torch.tensor([-7, 2**31 - 1], dtype=torch.int32)
    model["short"] = torch.tensor([-300], dtype=torch.int16)
    model["char"] = torch.tensor([-8, 8], dtype=torch.int8)
    model["byte"] = torch.tensor([0, 255, 3], dtype=torch.uint8)
    model["bool"] = torch.tensor([True, False, True])
    model["empty"] = torch.zeros(0, 5)
    model["transposed"] = matrix.t()
    model["rows"] = matrix[1:3]  # shares the storage, in C order
    model["columns"] = matrix[:, 1::2]  # shares the storage, strided
    model["cube"] = matrix.reshape(2, 2, 6).permute(2, 0, 1)
    model["parameter"] = torch.nn.Parameter(torch.randn(2, 3))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    module(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    return {
        "model": model,
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "big": 2**70,
        "text": "ሰላም",
        "nothing": None,
        "f1": numpy.float64(0.75),
        "rng_state": {
            "torch_cpu": torch.tensor([1, 2, 3], dtype=torch.uint8),
            "numpy": ("MT19937", numpy.arange(4, dtype=numpy.uint32), 4, 0, 0.0),
            "python": (3, (2147483648, 1, 624), None),
        },
        "list": [torch.ones(1), torch.zeros(1)],
        "ordered": collections.OrderedDict(a=torch.tensor(2.0)),
    }


def flatten(value, name, out):
    if isinstance(value, torch.Tensor):
        out[name] = value.detach().clone(memory_format=torch.contiguous_format)
    elif isinstance(value, dict):
        for key, item in value.items():
            flatten(item, f"{name}.{key}" if name else str(key), out)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            flatten(item, f"{name}.{index}", out)
    return out


def main():
    folder = sys.argv[1]
    tree = build()
    for protocol in (2, 4):
        torch.save(tree, f"{folder}/torch_protocol{protocol}.pth", pickle_protocol=protocol)
    safetensors.torch.save_file(flatten(tree, "", {}), f"{folder}/torch_expected.safetensors")


main()
