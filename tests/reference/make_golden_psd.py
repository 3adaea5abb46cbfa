#!/usr/bin/env python3
"""Makes golden values for the PSD models with their implementation in PyTorch (psd_torch.py), float64.

    python make_golden_psd.py          writes golden/psd_*.safetensors (stored as float32 / int32)

It first computes every number that the specification prints of these models (PRINTED below, from the reference
implementation's own modules) and stops if one differs by more than its rounding. The specification's weights and inputs
are formulas in float64; the stored ones are the same rounded to float32, and the values stored with them are computed
from these, so that a trainer in float32 starts from exactly the same numbers.

 - "mpae"        the specification's TINY model: six visible patches, one layer each
 - "mpae2"       two encoder layers, two decoder layers, five visible patches
 - "classifier"  the transformer with its head; "cnn": the CNN with its head
 - "mpae_cnn"    pretraining of the CNN: only the contrastive term trains it, in two passes, anchors first: its batch norms
                 see them apart, and its running statistics move twice a step. patch_embed.cls_token and .layer_norm have
                 no gradient (stored as zeros) and do not move: torch skips them, weight decay included

Each file: the inputs under "batch.", the weights and buffers under their own names (float32; counters int32), values of
the first step (train mode) under "step0.", "losses" [5, 3] (masked, contrastive, total) or [5, 1] and
gradient "norms" [5] of five AdamW steps (clip 1; rate 1e-3, of a classifier's encoder 1e-4; decay 1e-2), every gradient
of the first step under "grad.", and all weights and buffers after the fifth step under "after.". In the CNN's files, whose
weights and batch norms are formulas, weights are left out, and of tensors with more than 1024 elements, in "grad." and
"after.", only every 97th element is stored, flat; all norms are: "norms.grad", "norms.after", in the order of parameters.
"""
import math
import pathlib

import numpy
import psd_torch as psd
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

STEPS, WEIGHT_DECAY, TEMPERATURE, BATCH = 5, 1e-2, 0.07, 8
LABELS, CLASS_WEIGHTS = [0, 2, 5, 3, 1, 4, 4, 0], [0.5, 1, 1.5, 2, 0.8, 1.2]
WHOLE, STRIDE = 1024, 97
torch.set_default_dtype(torch.float64)

PRINTED = {
    "mpae": {
        "parameters": [14064],
        "losses": [2.039386820200, 2.009193270016, 2.240306147201, 1.724009109301, 1.863555733856, 1.910364682687,
                   1.471448431325, 1.715236000635, 1.642972031389, 1.274550775371, 1.566978556205, 1.431248630991,
                   1.123638060538, 1.419774619752, 1.265615522513],
        "norms": [6.508536880296, 5.288382110130, 4.246341694766, 3.392890183792, 2.701433353717],
        "after.absolute_sum": [2308.268764722],
        "step0.prediction": [0.3307840998, 1.2432991535, -1.7873014194, 2.2074756724],
        "step0.prediction.last": [1.3473557213],
        "step0.class_token": [-0.7771609524, 1.0660218912, -1.3405237150, 0.1339258151],
        "step0.z": [-0.0098652970, -0.4397073553, -0.2439846329, 0.1562863735],
        "grad.patch_embed.cls_token": 5.699129437e-2,
        "grad.patch_embed.projection.weight": 5.666045973e-1,
        "grad.patch_embed.projection.bias": 3.938816249e-1,
        "grad.patch_embed.layer_norm.weight": 5.097218919e-2,
        "grad.encoder.layers.0.norm1.weight": 1.772458867e-1,
        "grad.encoder.layers.0.attn.in_proj_weight": 1.010145549,
        "grad.encoder.layers.0.attn.in_proj_bias": 2.960309363e-1,
        "grad.encoder.layers.0.attn.out_proj.weight": 9.242109039e-1,
        "grad.encoder.layers.0.ffn.0.weight": 7.827196039e-1,
        "grad.encoder.layers.0.ffn.3.weight": 1.302739909,
        "grad.encoder.final_norm.weight": 2.971025450e-1,
        "grad.decoder.mask_token": 1.761335816,
        "grad.decoder.pos_embed": 7.121043961e-1,
        "grad.decoder.input_proj.weight": 2.199235478,
        "grad.decoder.decoder.layers.0.self_attn.in_proj_weight": 1.925865250,
        "grad.decoder.decoder.layers.0.linear1.weight": 2.173082852,
        "grad.decoder.decoder.layers.0.norm2.bias": 8.284569104e-1,
        "grad.decoder.output_proj.weight": 1.961027068,
        "grad.projection_head.net.0.weight": 2.009637230e-1,
        "grad.projection_head.net.2.weight": 1.411878663e-1,
    },
    "classifier": {
        "parameters": [71766],
        "losses": [1.792730719489, 1.726538961694, 1.670189608422, 1.620279268047, 1.574013996419],
        "norms": [2.335830360080, 1.992593978530, 1.780224168475, 1.674508670807, 1.634363793451],
        "step0.unweighted": [1.859933268094],
        "step0.logits": [-0.3669972629, -0.2804302468, -0.4908356637, 0.8227217456, -0.1203120291, -0.4450920037],
        "grad.patch_embed.cls_token": 1.965526377e-1,
        "grad.patch_embed.projection.weight": 3.422112955e-1,
        "grad.classifier.head.0.weight": 1.066176782,
        "grad.classifier.head.3.weight": 6.086453549e-1,
        "grad.classifier.head.3.bias": 1.516099863e-1,
    },
    "cnn": {
        "parameters": [450702],
        "losses": [1.849033876094, 1.724329991528, 1.616505344190, 1.519284028374, 1.427222307035],
        "norms": [2.978748425022, 2.564915513306, 2.306819525053, 2.199215934451, 2.192523994698],
        "step0.logits": [0.1277325518, 0.2998902811, 0.1648721149, -0.1526837235, -0.0579871298, 0.2008987520],
        "grad.encoder.stem.0.weight": 4.202601796e-1,
        "grad.encoder.blocks.2.shortcut.0.weight": 4.843487676e-1,
        "grad.encoder.projector.weight": 9.231757921e-1,
        "after.encoder.stem.1.running_mean": [-0.008610505956, -0.016312968627, -0.011030081547],
        "after.encoder.stem.1.running_var": [0.693978881537, 0.741028623143, 0.692811197409],
        "after.eval_logits": [0.0899404339, 0.0635660621, 0.2014671050, 0.1061773354, -0.1275122326, 0.0561423173],
    },
}
# Twelve printed digits. The position table is float32: a sine whose last bit differs from the reference machine's moves
# what follows by about 1e-8, and five steps of AdamW carry it on.
TOLERANCE = 1e-7


def hashed(t, count):
    """Returns u(t, j) of the specification, j < count, in [-1, 1)."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32((t + 1) * 2246822519 % 2**32)
        x = (x ^ (x >> 16)) * numpy.uint32(2246822519)
        x = (x ^ (x >> 13)) * numpy.uint32(3266489917)
    return torch.tensor((x ^ (x >> 16)) / 2.0**32 * 2 - 1)


def fill(model, batch, single):
    """Gives a new model the deterministic weights; single: rounded to float32."""
    with torch.no_grad():
        for t, (name, p) in enumerate(model.named_parameters()):
            u = hashed(t, p.numel()).reshape(p.shape)
            if name.endswith(("cls_token", "mask_token", "pos_embed")):
                u = 0.5 * u
            elif p.dim() == 1:
                u = 1 + 0.2 * u if name.endswith("weight") else 0.1 * u
            else:
                u = u * math.sqrt(3 / (p.numel() / p.shape[0]))
            p.copy_(u.float() if single else u)
    if isinstance(model, psd.Classifier):
        model.class_weights.copy_(batch["class_weights"])
    return model


def inputs(visible, single):
    """Returns the inputs of a pretraining batch, or of labelled rows if there are no visible patches."""
    i, b = torch.arange(psd.BINS), torch.arange(BATCH)[:, None]
    batch = {"anchor": torch.sin(0.05 * (b + 1) * i) + 0.3 * torch.cos(0.9 * i + b)}
    if visible:
        batch["positive"] = batch["anchor"] + 0.4 * torch.sin(0.37 * i + 2 * b)
        batch["visible"] = ((5 * b + 7 * torch.arange(visible)) % psd.PATCHES).sort(1).values
    else:
        batch |= {"labels": torch.tensor(LABELS), "class_weights": torch.tensor(CLASS_WEIGHTS)}
    return {key: x.float().double() if single and x.is_floating_point() else x for key, x in batch.items()}


def losses(model, batch):
    """The minimised loss comes last."""
    if isinstance(model, psd.Classifier):
        return model.loss(batch["anchor"], batch["labels"])[None]
    mae, sicr = model.parts(batch["anchor"], batch["positive"], batch["visible"])
    return torch.stack([mae, sicr, mae + 0.1 * sicr])


def first_values(model, batch):
    """The first step's intermediate values; of a model of its own, for batch norms move."""
    features = model.features(batch["anchor"])
    if isinstance(model, psd.Classifier):
        logits = model.classifier(features)
        out = {"logits": logits, "unweighted": F.cross_entropy(logits, batch["labels"])[None]}
    else:
        prediction, target = model.predict(batch["anchor"], batch["visible"])
        out = {"prediction": prediction, "target": target, "z": model.projection_head(features)}
        out["z_positive"] = model.projection_head(model.features(batch["positive"]))
    return out | {"class_token": features}


def optimizer_of(model):
    """Pretraining has one learning rate; the encoder of a classifier has a tenth of that of the head."""
    if isinstance(model, psd.Mpae):
        groups = [{"params": model.parameters(), "lr": 1e-3}]
    else:
        head = list(model.classifier.parameters())
        rest = [p for name, p in model.named_parameters() if not name.startswith("classifier.")]
        groups = [{"params": rest, "lr": 1e-4}, {"params": head, "lr": 1e-3}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, weight_decay=WEIGHT_DECAY)


def run(build, visible, single):
    """Five steps; all that a golden file can hold, under its names."""
    batch = inputs(visible, single)
    out = {f"batch.{key}": value for key, value in batch.items()}
    with torch.no_grad():
        out |= {f"step0.{key}": value for key, value in first_values(fill(build(), batch, single), batch).items()}
    model = fill(build(), batch, single)
    out |= {key: value.clone() for key, value in model.state_dict().items()}
    optimizer, seen, norms = optimizer_of(model), [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        seen.append(losses(model, batch))
        seen[-1][-1].backward()
        if step == 0:
            for name, p in model.named_parameters():
                out[f"grad.{name}"] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
    out |= {"losses": torch.stack(seen), "norms": torch.stack(norms)}
    out |= {f"after.{key}": value for key, value in model.state_dict().items()}
    out["after.absolute_sum"] = sum(p.abs().sum() for p in model.parameters())
    if isinstance(model, psd.Classifier):
        out["after.eval_logits"] = model.eval()(batch["anchor"])
    out["parameters"] = torch.tensor([sum(p.numel() for p in model.parameters())])
    return {key: value.detach() for key, value in out.items()}


MODELS = {  # and how many patches are visible
    "mpae": (lambda: psd.Mpae(32, 1, 2, 64, 16, 1, 16, masked=6), 6),
    "mpae2": (lambda: psd.Mpae(24, 2, 2, 40, 16, 2, 12, masked=7), 5),
    "classifier": (lambda: psd.Classifier(64, 2, 4, 128, 48), 0),
    "cnn": (lambda: psd.Classifier(32, 0, 0, 0, 24), 0),
    "mpae_cnn": (lambda: psd.Mpae(16, 0, 0, 0, 16, 1, 12, masked=7), 5),
}


class Results:
    """Collects differences from printed numbers, relative to the largest value printed beside them."""

    def __init__(self):
        self.worst, self.where, self.count = 0, "", 0

    def near(self, what, got, want, tolerance=TOLERANCE):
        got, want = torch.as_tensor(got).double().flatten(), torch.as_tensor(want).flatten()
        assert got.shape == want.shape, f"{what}: {len(got)} values, {len(want)} printed"
        off = float((got - want).abs().max() / want.abs().max())
        assert off < tolerance, f"{what}: {got.tolist()}, printed {want.tolist()}"
        self.count += len(want)
        if off > self.worst:
            self.worst, self.where = off, what


def check_models(results):
    for kind, printed in PRINTED.items():
        got = run(*MODELS[kind], single=False)
        for name, want in printed.items():
            if name == "step0.prediction.last":
                value = got["step0.prediction"].flatten()[-1:]
            elif name.startswith("grad."):
                value = got[name].norm()
            else:
                value = got[name].flatten()[: len(want)]
            results.near(f"{kind} {name}", value, want)


def check_pieces(results):
    results.near("u(0, 0..3)", hashed(0, 4), [0.5027731163427234, -0.011410519015043974, -0.8602073360234499, -0.07766550406813622])
    results.near("u(7, 1000)", hashed(7, 1001)[1000], 0.3005722281523049)
    k = torch.arange(24)
    z, w = (F.normalize(f.reshape(4, 6)) for f in (torch.sin(0.9 * k), torch.cos(0.4 * k)))
    results.near("NT-Xent", psd.nt_xent(z, w, TEMPERATURE), 8.516661757361)
    results.near("position table", psd.position_table(2, 32)[0, 1, :4], [0.8414709569, 0.5403023362, 0.5331684351, 0.8460091352])
    sizes = {  # d, layers, heads, ffn, e, decoder layers, q, head: parameters of MPAE, classifier
        (32, 1, 2, 64, 16, 1, 16, 32): (14064, 10502),
        (128, 4, 4, 256, 64, 2, 64, 128): (634576, 550022),
        (256, 6, 8, 1024, 64, 2, 64, 128): (4911696, 4777862),
        (512, 8, 8, 2048, 128, 4, 128, 256): (26157968, 25363206),
        (1024, 16, 16, 4096, 128, 4, 128, 256): (203407760, 201826054),
    }
    for size, printed in sizes.items():
        with torch.device("meta"):
            models = psd.Mpae(*size[:7]), psd.Classifier(*size[:4], size[7])
        results.near(f"parameters {size}", [sum(p.numel() for p in m.parameters()) for m in models], printed, 0.1 / max(printed))


def rates(epochs, warmup, floor, *bases):
    """Returns the learning rates of each epoch and group from the schedulers of torch."""
    optimizer = torch.optim.AdamW([{"params": [torch.zeros(1, requires_grad=True)], "lr": base} for base in bases])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs - warmup, floor)
    if warmup:
        linear = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, warmup)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [linear, schedule], [warmup])
    out = []
    for _ in range(epochs):
        out.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return torch.tensor(out)


def check_schedules(results):
    printed = [2e-6, 4.16e-5, 8.12e-5, 1.208e-4, 1.604e-4, 2e-4, 1.978257e-4, 1.913978e-4, 1.809972e-4, 1.670785e-4, 1.5025e-4,
               1.312472e-4, 1.109006e-4, 9.009942e-5, 6.975281e-5, 5.075e-5, 3.392150e-5, 2.000281e-5, 9.602227e-6, 3.174314e-6]
    pretrain, finetune = rates(20, 5, 1e-6, 2e-4), rates(50, 0, 1e-7, 2e-5, 2e-4)
    for epoch, want in enumerate(printed):
        results.near(f"pretrain rate {epoch}", pretrain[epoch], [want], 5e-7)  # seven digits are printed
    for epoch, want in {0: (2e-5, 2e-4), 1: (1.9980365948e-5, 1.9980277151e-4), 25: (1.005e-5, 1.0005e-4),
                        48: (1.7845872e-7, 8.8813560e-7), 49: (1.1963405e-7, 2.9722849e-7)}.items():
        for group in (0, 1):
            results.near(f"finetune rate {epoch}", finetune[epoch, group], want[group])


def thinned(values):
    """A CNN's file: see above."""
    names = [key[5:] for key in values if key.startswith("grad.")]
    out = {}
    for key, value in values.items():
        stored = key.startswith(("batch.", "step0.", "grad.", "after.")) or key in ("losses", "norms")
        if stored:
            out[key] = value.flatten()[::STRIDE] if value.numel() > WHOLE and key.startswith(("grad.", "after.")) else value
    for kind in ("grad", "after"):
        out[f"norms.{kind}"] = torch.stack([values[f"{kind}.{name}"].norm() for name in names])
    return out


def save(path, kind):
    values = run(*MODELS[kind], single=True)
    del values["after.absolute_sum"], values["parameters"]
    stored = {}
    for key, value in (thinned(values) if "cnn" in kind else values).items():
        array = value.contiguous().numpy()
        stored[key] = array.astype(numpy.float32 if array.dtype.kind == "f" else numpy.int32)
    save_file(stored, path)
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, losses {values['losses'][:, -1].tolist()}")


def main():
    for check in (check_pieces, check_models, check_schedules):
        results = Results()
        check(results)
        print(f"{check.__name__}: {results.count} printed numbers, largest relative difference {results.worst:.1e} ({results.where})")
    folder = pathlib.Path(__file__).parent / "golden"
    for kind in MODELS:
        save(folder / f"psd_{kind}.safetensors", kind)


if __name__ == "__main__":
    main()
