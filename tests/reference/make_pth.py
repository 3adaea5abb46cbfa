"""Writes the small .pth files that the tests read, and their expected contents as safetensors.

    python3 tests/reference/make_pth.py tests/reference/golden

torch_protocol2.pth, torch_protocol4.pth: a nested training checkpoint with every element type, strided and shared
views, parameters, counters, numpy scalars and generator states; torch_legacy.pth: the same as a torch before 1.6 wrote
it. torch_expected.safetensors: its tensors under dotted names, written by the safetensors library. torch_lightning.ckpt: what PyTorch Lightning saves of a module whose encoder
was compiled, with the keys that it puts beside the state dict; torch_lightning.safetensors: the weights, under the names
that they have without the compiler. torch_classifier.ckpt, torch_classifier.safetensors: the same of a small classifier
of power spectra (psd_torch.py), of which nothing but the weights and the hyper-parameters is kept.
torch_flim.pth: what the reference's trainer of photon decays saves of its best epoch, of a network of few channels
(cv_torch.py) that a GPU trained, with NumPy's numbers under the name that NumPy 1 has for them; of the optimizer's state
only the first layer's, to be small. torch_flim.safetensors: counts of cells [cells, bins, side, side], and their logits.
"""

import collections
import copyreg
import sys
import types

import cv_torch
import numpy
import psd_torch
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


def lightning():
    torch.manual_seed(2)
    module = torch.nn.Module()
    module.encoder, module.decoder = torch.nn.Module(), torch.nn.Linear(4, 2)
    module.encoder.embed = torch.nn.Linear(3, 4)
    plain = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=2e-4, betas=(0.9, 0.999))
    module.decoder(module.encoder.embed(torch.randn(5, 3))).square().sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda epoch: 1.0])
    weights = collections.OrderedDict(
        (name.replace("encoder.", "encoder._orig_mod."), tensor) for name, tensor in plain.items()
    )
    return plain, {
        "epoch": 12,
        "global_step": 91,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": weights,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 13, "completed": 12}}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': 'val_loss', 'mode': 'min'}": {
                "monitor": "val_loss",
                "best_model_score": torch.tensor(0.25),
                "best_model_path": "checkpoints/epoch=11-val_loss=0.2500.ckpt",
                "best_k_models": {"checkpoints/epoch=11-val_loss=0.2500.ckpt": torch.tensor(0.25)},
            }
        },
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [scheduler.state_dict()],
        "hparams_name": "kwargs",
        "hyper_parameters": {"d_model": 4, "patch_sizes": [8, 20], "lr": 2e-4, "pretrained_ckpt": None},
    }


def classifier():
    torch.manual_seed(3)
    module = psd_torch.Classifier(16, 1, 2, 24, 8)
    plain = {name: tensor.detach().float().contiguous() for name, tensor in module.state_dict().items()}
    return plain, {
        "epoch": 4,
        "global_step": 35,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": collections.OrderedDict(
            (name.replace("encoder.", "encoder._orig_mod."), tensor) for name, tensor in plain.items()
        ),
        "hparams_name": "kwargs",
        "hyper_parameters": {"d_model": 16, "n_layers": 1, "n_heads": 2, "pretrained_ckpt": "/moved/away.ckpt"},
    }


def flim():
    """The checkpoint, and what its network says of cells in evaluation."""
    torch.manual_seed(4)
    module = cv_torch.Flim(channels=(8, 2, 3))
    counts = torch.stack([torch.randint(0, most, (16, 5, 5), dtype=torch.uint8) for most in (3, 30, 250)])
    counts[0, :, :2], counts[1, :, :, 0] = 0, 0
    footprint = (counts.sum(1, keepdim=True) > 0).expand_as(counts)
    x = torch.stack([torch.log1p(counts.float()) / 10, footprint.float()], 1)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 75, 1e-6)  # brings initial_lr into the group
    for _ in range(3):
        optimizer.zero_grad()
        module.loss(x, torch.tensor([0.025, 0.975, 0.025])).backward()
        for parameter in list(module.parameters())[2:]:
            parameter.grad = None
        optimizer.step()
    schedule.step()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(".bias"):
                parameter += 0.5 * torch.randn_like(parameter)  # far from 0, as a long training leaves them
        for _ in range(40):
            module(x)  # running statistics near these cells': their logits are far apart
    checkpoint = {
        "epoch": 17,
        "model_state_dict": module.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "train_loss": 0.25,
        "val_loss": 0.5,
        "train_acc": 0.875,
        "val_acc": 0.75,
        "val_f1": numpy.float64(0.8),
        "val_precision": numpy.float64(0.7),
        "val_recall": numpy.float64(0.9),
        "fold": "isolated_cells_D1",
    }
    with torch.no_grad():
        return checkpoint, {"counts": counts, "logits": module.eval()(x)}


def save_as_the_reference(checkpoint, path):
    """With storages of a GPU, and NumPy 1's name of the function that makes a scalar."""

    def scalar(dtype, data):
        raise NotImplementedError

    scalar.__module__, scalar.__qualname__ = "numpy.core.multiarray", "scalar"
    sys.modules["numpy.core.multiarray"] = types.SimpleNamespace(scalar=scalar)
    copyreg.pickle(numpy.float64, lambda number: (scalar, (number.dtype, number.tobytes())))
    torch.serialization.register_package(1, lambda storage: "cuda:0", lambda *_: None)
    torch.save(checkpoint, path)


def main():
    folder = sys.argv[1]
    tree = build()
    for protocol in (2, 4):
        torch.save(tree, f"{folder}/torch_protocol{protocol}.pth", pickle_protocol=protocol)
    torch.save(tree, f"{folder}/torch_legacy.pth", _use_new_zipfile_serialization=False)
    safetensors.torch.save_file(flatten(tree, "", {}), f"{folder}/torch_expected.safetensors")
    for name, (weights, checkpoint) in {"lightning": lightning(), "classifier": classifier()}.items():
        torch.save(checkpoint, f"{folder}/torch_{name}.ckpt")
        safetensors.torch.save_file(weights, f"{folder}/torch_{name}.safetensors")
    checkpoint, answers = flim()
    safetensors.torch.save_file(answers, f"{folder}/torch_flim.safetensors")
    save_as_the_reference(checkpoint, f"{folder}/torch_flim.pth")  # the last: it changes how everything is saved


main()
