#!/usr/bin/env python3
"""Makes golden values for the FLIM classifier with its implementation in PyTorch (cv_torch.py) and NumPy
(flim_augment.py), float64.

    python make_golden_cv.py          writes golden/flim_*.safetensors

It first computes every number that the specification prints of what these files hold (PRINTED, and the tables below) and
stops if one differs by more than the rounding of its last digit.

flim_full: the whole network on the specification's batch of 4; its weights and inputs are formulas in float64, and are not
in the file. All F64:
    eval.logits, logits, loss, norm     with the first running statistics; of one step; the gradient's norm
    stage.NAME [3]                      mean, root mean square and element [3, 1, T/4, H/2, W/2] after a module
    running.NAME                        running statistics after that step's forward
    grad.NAME                           of tensors with more than 1024 elements every 97th, flat
    sums.grad, norms.grad [46]          of whole gradients, in the order of parameters, rounding where there is none

flim_small: the same code with 8, 16, 32 channels and 32 x 9 x 9 voxels. Its inputs are dense numbers, so that hardly any
activation lies at the kink of the leaky ReLU or ties in a pool: a trainer in float32 comes close. F32, but losses, norms
and logits F64; all are computed from the float32 numbers of the file.
    NAME                                weights; running statistics begin at 0 and 1
    mixup.x, .labels, .share, .permutation
    batch.x, batch.targets              those, mixed and smoothed
    losses, norms [3], logits [4]       of three steps of Adam (rate 1e-3, coupled decay 1e-3, norm clipped to 35: the last
                                        layer's weights are eight times the formula's, so that the first norm is above);
                                        the first step's logits
    grad.NAME, running.NAME             of the first step
    after.NAME                          weights and running statistics after the third; thinned as in flim_full
    after.eval_logits                   of the batch, in evaluation after the third step
    linear.NAME                         losses, norms, logits, grad., running., after. of the linear network, from the same
                                        weights and batch

flim_augment: a small cell, [9, 9, 32], through each augmentation with given random numbers, and two chains. F32, from
float32 numbers. NAME [cases, 9, 9, 32] and its numbers: shift.steps, scale.factors, rotate.turns, zoom.factors,
blur.sigmas; elastic.u and elastic.fields [cases, 2, 9, 9] (x before y; uniform numbers, and displacements). flip_y, flip_x
and chain.K have one case, chain.K.packed is [2, 32, 9, 9]; in the order of training, of the numbers above: chain.0 the first
of each and flip_y; chain.1 the second of each (zoom, blur: the last) and flip_x. Poisson noise has no golden values: what it
draws depends on the generator.

A bias before a batch norm has a zero gradient (only rounding), so "grad." leaves these biases out. Their values after steps
of Adam are stored, because the weight decay in their gradient is far above rounding.
PyTorch in float32 differs from flim_small by norm-relative 3e-6 in gradients (linear network: 4e-5), and by 6e-4 in weights
after three steps, because Adam divides small gradients by their own size.
"""
import math
import pathlib
from functools import partial

import flim_augment
import cv_torch as flim
import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

WHOLE, STRIDE = 1024, 97
DECAY, CLIP, RATE, STEPS = 1e-3, 35.0, 1e-3, 3
SMALL = {"channels": (8, 16, 32), "bins": 32, "side": 9}
LABELS = [0, 1, 0, 1]
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

PRINTED = {
    "eval.logits": "-0.110115613746 -0.110149882855 -0.109428207043 -0.109268796128",
    "logits": "-0.220215273563 -0.385470527797 -0.524698462903 0.541834757052",
    "loss": "0.609818646304",
    "norm": "33.307400517698",
    "stage.stem.0": "1.226237180466e-02 2.368522302100e-01 0.255974618718",
    "stage.stem": "4.485253860342e-01 7.159684361578e-01 0.933488613133",
    "stage.downsample1": "3.878988144197e-01 7.024527267148e-01 -0.026417205695",
    "stage.res_block1": "6.214881692935e-01 1.059037409632e+00 -0.024197505454",
    "stage.res_block2": "5.138064805248e-01 1.038369361265e+00 0.802343386234",
    "stage.pool2": "6.027411568762e-01 1.194268532973e+00 0.802343386234",
    "stage.res_block3": "4.869486882080e-01 9.815041901764e-01 -0.025932192662",
    "stage.pool3": "5.980380700723e-01 1.156216159210e+00 -0.021050399481",
}
RUNNING = """stem.1 3.923958977e-02 28.91537219
downsample1.1 -1.586896091e-01 28.99900699
res_block1.bn1 -4.562065764e-02 29.14921676
res_block1.bn2 -4.810042833e-02 29.13817007
res_block2.bn1 4.591017981e-02 58.86885936
res_block2.bn2 1.880874198e-01 58.39190447
res_block2.shortcut.1 6.989741275e-02 59.08908276
res_block3.bn1 1.386979931e-01 118.9254719
res_block3.bn2 8.635626048e-03 116.6291581
res_block3.shortcut.1 -2.632563861e-01 118.7707715
classifier.1 2.058863873e-01 57.71201162"""
GRADIENTS = """stem.0.weight 3.440617560 2.665267020
stem.1.weight -1.745803505e-2 4.868158671e-1
stem.1.bias 7.805107147e-2 3.925755617e-1
downsample1.0.weight -9.901574977 7.453373214
downsample1.1.weight 1.543298876e-1 2.848635386e-1
downsample1.1.bias 1.697398370e-1 2.900688562e-1
res_block1.conv1.weight 11.30637044 12.71316489
res_block1.bn1.weight 6.219263863e-5 1.691257216e-1
res_block1.bn1.bias 7.367605406e-2 1.964501706e-1
res_block1.conv2.weight -30.76982415 11.45884846
res_block1.bn2.weight -1.608231274e-1 1.784491723e-1
res_block1.bn2.bias 7.009292759e-2 1.448340310e-1
res_block2.conv1.weight -88.08723344 9.611444333
res_block2.bn1.weight 2.563760508e-2 1.736425806e-1
res_block2.bn1.bias -6.987787262e-3 1.648370621e-1
res_block2.conv2.weight -87.01405169 12.02752474
res_block2.bn2.weight -9.731728045e-2 1.681079361e-1
res_block2.bn2.bias 7.732327186e-2 1.684681692e-1
res_block2.shortcut.0.weight -3.932812573 1.827346537
res_block2.shortcut.1.weight 8.902640849e-2 1.682825071e-1
res_block2.shortcut.1.bias 7.732327186e-2 1.684681692e-1
res_block3.conv1.weight -5.678553590 12.08907988
res_block3.bn1.weight 1.388532045e-3 1.642942746e-1
res_block3.bn1.bias -2.690221880e-2 1.614996844e-1
res_block3.conv2.weight 273.1018854 17.93032292
res_block3.bn2.weight -7.669402572e-3 2.162636775e-1
res_block3.bn2.bias -1.298344091e-1 1.416663138e-1
res_block3.shortcut.0.weight 9.973711731e-1 3.301080064
res_block3.shortcut.1.weight -1.917975226e-2 2.189083822e-1
res_block3.shortcut.1.bias -1.298344091e-1 1.416663138e-1
classifier.0.weight 12.86128864 5.759828632
classifier.1.weight -6.015746950e-2 5.648022466e-2
classifier.1.bias -1.432371844e-2 3.481216123e-2
classifier.4.weight -7.151617491e-1 8.127290376e-1
classifier.4.bias -3.650772364e-2 3.650772364e-2"""
# Sums of b, b y, b x, b t over y, x, t; then the pixels of the footprint.
AUGMENTED = """raw 901318 10179805 9622001 90163019 265
shift+5 901053 10176812 9619172 94601240 265
shift-3 901159 10178013 9620289 87459382 265
rotate1 901318 8404359 10179805 90163019 265
rotate2 901318 7846555 8404359 90163019 265
rotate3 901318 9622001 7846555 90163019 265
flip_y 901318 7846555 9622001 90163019 265
flip_x 901318 10179805 8404359 90163019 265
zoom0.88 645640.041522 6833482.9792 6500337.3529 64586373.8235 217
zoom0.95 809448.033241 8680421.7673 8205820.6537 80972843.5346 279
zoom1.10 1073427.272727 12224202.4711 11529992.9256 107379841.3554 338
elastic 930142.038055 10443676.6269 9690536.0699 93046448.4089 307
blur0.30 901318.000000 10179791.9490 9622001.0000 90163019 340
blur0.55 901318.000000 10179295.2473 9621991.0976 90163019 390
blur0.80 901318.000000 10178071.0113 9621757.9388 90163019 416
chain 667842.298114 6870706.9325 7080744.6053 70116489.9895 429"""
# Donors: inactive and active cells.
DONORS = {"D1": (2110, 789), "D2": (2184, 582), "D3": (2351, 604), "D4": (399, 1139), "D5": (625, 1291), "D6": (3210, 957)}
# Test donor, training donors, validation donor; training cells, inactive, active, weight of an active cell, batches of 64,
# cells in the last batch; validation cells, test cells.
SPLITS = """D1 D3+D4 D2 4493 2750 1743 1.5777 71 13 2766 2899
D2 D3+D4 D1 4493 2750 1743 1.5777 71 13 2899 2766
D3 D2+D4 D1 4304 2583 1721 1.5009 68 16 2899 2955
D4 D2+D3 D1 5721 4535 1186 3.8238 90 25 2899 1538
D5 D1+D2+D3+D4 D6 10158 7044 3114 2.2620 159 46 4167 1916"""
# Modules that have a state, in the order of a state dict.
ORDER = """stem.0 stem.1 downsample1.0 downsample1.1 res_block1.conv1 res_block1.bn1 res_block1.conv2 res_block1.bn2
res_block2.conv1 res_block2.bn1 res_block2.conv2 res_block2.bn2 res_block2.shortcut.0 res_block2.shortcut.1
res_block3.conv1 res_block3.bn1 res_block3.conv2 res_block3.bn2 res_block3.shortcut.0 res_block3.shortcut.1
classifier.0 classifier.1 classifier.4"""
# Module, parameters, multiply-accumulates of the forward of one cell.
SIZES = """stem 544 50577408
downsample1 3168 173408256
res_block1 55488 3121348608
res_block2 168512 2600992768
res_block3 672896 1547698176
classifier 8449 8256"""
STARTS_A = {"stem.0": ".26726", "downsample1.0": ".10206", "res_block1.conv1": ".03402", "res_block1.conv2": ".03402",
            "res_block2.conv1": ".03402", "res_block2.conv2": ".02406", "res_block2.shortcut.0": ".17678",
            "res_block3.conv1": ".02406", "res_block3.conv2": ".01701", "res_block3.shortcut.0": ".125",
            "classifier.0": ".08839", "classifier.4": ".125"}
STARTS_B = {"stem.0": ".09449", "downsample1.0": ".14434", "res_block1.conv1": ".04811", "res_block1.conv2": ".04811",
            "res_block2.conv1": ".03402", "res_block2.conv2": ".03402", "res_block2.shortcut.0": ".17678",
            "res_block3.conv1": ".02406", "res_block3.conv2": ".02406", "res_block3.shortcut.0": ".125",
            "classifier.0": ".17678", "classifier.4": "1.41421"}


def hashed(j, *shape):
    """Returns U(j, k) of the specification, in [-1, 1); k is the flat index."""
    with numpy.errstate(over="ignore"):
        z = numpy.arange(math.prod(shape), dtype=numpy.uint64) + numpy.uint64((j * 2**32 + 0x9E3779B97F4A7C15) % 2**64)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    return ((z >> numpy.uint64(11)).astype(float) * 2.0**-52 - 1).reshape(shape)


def fill(model, single=False):
    """Returns the weights of the specification; single: rounded to float32."""
    with torch.no_grad():
        for j, (name, p) in enumerate(model.named_parameters()):
            u = torch.tensor(hashed(j, *p.shape))
            if p.dim() > 1:
                u = u / math.sqrt(p[0].numel())
            else:
                u = 0.1 * u + (1 if name.endswith("weight") else 0)  # one-dimensional weights belong to norms
            p.copy_(u.float() if single else u)
    return model


def counts(n, side=flim.SIDE, bins=flim.BINS, start=50, radius=None):
    """Returns the photons of cell n of the specification, [side, side, bins]; other sizes have the same decay."""
    y, x, t = numpy.ogrid[:side, :side, :bins]
    decay = numpy.where(t < start, 0, (20 + 10 * n) * (bins - 1 - t) ** 2 // (bins - 1 - start) ** 2)
    inside = (y - side // 2) ** 2 + (x - side // 2) ** 2 <= (4 + 2 * n if radius is None else radius) ** 2
    return (decay + ((7 * y + 13 * x + 3 * t + 5 * n) % 5 == 0)) * inside.astype(float)


def cell_a():
    """Returns the cell of the specification for augmentations: cell 3 without a corner."""
    y, x = numpy.ogrid[: flim.SIDE, : flim.SIDE]
    return counts(3) * (x + 2 * y >= 18)[..., None]


def entropy(a):
    """Bits of the image at the brightest bin."""
    image = a[..., a.sum((0, 1)).argmax()]
    p = image[image > 0] / image.sum()
    return -(p * numpy.log2(p)).sum()


def has_gradient(model, linear=False):
    """Returns the names of parameters with a gradient: all but biases before a batch norm. In the linear network these include
    the biases of the last block, because only a mean and a linear layer lie between them and a batch norm."""
    before = {name for name, m in model.named_modules() if isinstance(m, torch.nn.Conv3d)} | {"classifier.0"}
    before |= {"res_block3.bn2", "res_block3.shortcut.1"} if linear else set()
    return [name for name, _ in model.named_parameters() if not (name.endswith(".bias") and name[:-5] in before)]


def running(model, prefix="running."):
    return {prefix + name: value.clone() for name, value in model.state_dict().items() if "running" in name}


class Results:
    """Collects differences from printed numbers, in units of the last digit; up to half a unit is rounding."""

    def __init__(self):
        self.worst, self.where, self.count = 0, "", 0

    def near(self, what, got, printed, noise=0.0):
        """printed: numbers as text; noise: the possible difference between two orders of summation in float64."""
        got, texts = numpy.ravel(numpy.asarray(got, float)), str(printed).split()
        assert len(got) == len(texts), f"{what}: {len(got)} values, {len(texts)} printed"
        for value, text in zip(got, texts):
            digits, _, exponent = text.partition("e")
            unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
            off = max(abs(value - float(text)) - noise, 0) / unit
            assert off < 0.5001, f"{what}: {value!r}, printed {text}"
            self.count += 1
            if off > self.worst:
                self.worst, self.where = off, what


def check_inputs(results):
    spots = (hashed(0, 1)[0], hashed(0, 2)[1], hashed(4, 3072)[3071], hashed(45, 1)[0])
    # Seventeen digits are printed, more than a float64 has.
    results.near("U", spots, "0.76662161642728521 0.13312315034456179 0.21008521523685975 -0.93873393614173128", 2e-16)
    cells = [counts(n) for n in range(4)]
    images = [flim_augment.packed(a) for a in cells]
    results.near("photons", [a.sum() for a in cells], "65424 228507 533517 1078182")
    results.near("maximum", [a.max() for a in cells], "21 31 41 51")
    results.near("footprint", [(a.sum(2) > 0).sum() for a in cells], "49 113 197 317")
    sums = "1632.6736700367387 4468.933879351927 8699.533922556988 15195.639473955278"
    results.near("log counts", [image[0].sum() for image in images], sums, 1e-10)
    results.near("masks", sum(image[1].sum() for image in images), "173056")
    results.near("peak", [a.sum((0, 1)).argmax() for a in cells], "50 50 50 50")
    results.near("entropies", [entropy(a) for a in cells], "5.614447066 6.820060001 7.621978637 8.308292562")


def check_sizes(results):
    """Keys, parameters, work and starts."""
    model = flim.Flim()
    work = {}

    def count(name):
        return lambda m, _, out: work.update({name: m.weight[0].numel() * out[0].numel()})

    modules = {name: m for name, m in model.named_modules() if isinstance(m, (torch.nn.Conv3d, torch.nn.Linear))}
    for name, m in modules.items():
        m.register_forward_hook(count(name))
    with torch.no_grad():
        model.to("meta")(torch.zeros(2, 2, flim.BINS, flim.SIDE, flim.SIDE, device="meta"))
    for line in SIZES.splitlines():
        part, parameters, macs = line.split()
        results.near(f"parameters of {part}", sum(p.numel() for p in getattr(model, part).parameters()), parameters)
        results.near(f"work of {part}", sum(n for name, n in work.items() if name.split(".")[0] == part), macs)
    results.near("parameters", sum(p.numel() for p in model.parameters()), "909057")
    results.near("work", sum(work.values()), "7494033472")
    results.near("tensors, trained tensors", [len(model.state_dict()), len(list(model.parameters()))], "79 46")
    assert list(dict.fromkeys(name.rpartition(".")[0] for name in model.state_dict())) == ORDER.split()
    for name, m in modules.items():
        bound = 1 / math.sqrt(m.weight[0].numel())
        results.near(f"start A {name}", bound, STARTS_A[name])
        results.near(f"start B {name}", math.sqrt(2 / (len(m.weight) * m.weight[0, 0].numel())), STARTS_B[name])
    check_starts(modules)


def check_starts(modules):
    """Checks that torch draws as the formulas say: the deviation of at least ten thousand numbers is right to 5 %."""
    torch.manual_seed(1)
    for model, starts, spread in ((flim.Flim(), STARTS_A, 1 / math.sqrt(3)), (flim.initialize_b(flim.Flim()), STARTS_B, 1)):
        for name in modules:
            weight = model.get_submodule(name).weight
            ratio = float(weight.detach().std()) / (float(starts[name]) * spread)
            assert weight.numel() < 10000 or abs(ratio - 1) < 0.05, f"start of {name}: {ratio} of what is printed"


def full():
    """Returns all values of flim_full, with whole gradients."""
    x = torch.tensor(numpy.stack([flim_augment.packed(counts(n)) for n in range(4)]))
    targets = flim.smoothed(torch.tensor(LABELS, dtype=torch.float64))
    model, out = fill(flim.Flim()), {}
    with torch.no_grad():
        out["eval.logits"] = model.eval()(x)

    def look(name):
        def hook(_, __, y):
            middle = y[3, 1, y.shape[2] // 4, y.shape[3] // 2, y.shape[4] // 2]
            out[f"stage.{name}"] = torch.stack([y.mean(), y.square().mean().sqrt(), middle])

        return hook

    for name in PRINTED:
        if name.startswith("stage."):
            model.get_submodule(name[6:]).register_forward_hook(look(name[6:]))
    out["logits"] = model.train()(x)
    loss = F.binary_cross_entropy_with_logits(out["logits"], targets)
    loss.backward()
    out |= {"loss": loss, "norm": torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)} | running(model)
    out |= {f"grad.{name}": p.grad for name, p in model.named_parameters()}
    return {name: value.detach() for name, value in out.items()}, has_gradient(model)


def check_full(values, trained, results):
    # A change of an input by 1e-12 changes gradients by 1e-10 of their norm; another order of summation changes less.
    noise = {"norm": 1e-10 * float(values["norm"])}
    for name, printed in PRINTED.items():
        results.near(name, values[name], printed, noise.get(name, 1e-12))
    for line in RUNNING.splitlines():
        name, printed = line.split(" ", 1)
        sums = [values[f"running.{name}.running_{what}"].sum() for what in ("mean", "var")]
        results.near(name, sums, printed, 1e-12)
    for line in GRADIENTS.splitlines():
        name, printed = line.split(" ", 1)
        gradient = values[f"grad.{name}"]
        results.near(f"grad.{name}", [gradient.sum(), gradient.norm()], printed, 1e-10 * float(gradient.norm()))
    assert [line.split()[0] for line in GRADIENTS.splitlines()] == trained
    for name, value in values.items():
        if name.startswith("grad.") and name[5:] not in trained:
            assert value.norm() < 2e-11, f"{name}: {value.norm()}, a bias before a norm"


def moments(b):
    y, x, t = numpy.ogrid[: b.shape[0], : b.shape[1], : b.shape[2]]
    return [b.sum(), (b * y).sum(), (b * x).sum(), (b * t).sum(), (b.sum(2) > 0).sum()]


def check_augmentation(results):
    a = cell_a()
    fields = [flim_augment.displacements(hashed(j, flim.SIDE, flim.SIDE)) for j in (1001, 1002)]
    dx, dy = fields
    chain = flim_augment.augment(a, 5, 0.8, 1, y=True, size=0.95, fields=fields, sigma=0.55)
    done = {
        "raw": a, "shift+5": flim_augment.shift(a, 5), "shift-3": flim_augment.shift(a, -3), "flip_y": flim_augment.flip_y(a),
        "flip_x": flim_augment.flip_x(a), "elastic": flim_augment.elastic(a, dx, dy), "chain": chain,
    }
    done |= {f"rotate{k}": flim_augment.rotate(a, k) for k in (1, 2, 3)}
    done |= {f"zoom{factor:.2f}": flim_augment.zoom(a, factor) for factor in (0.88, 0.95, 1.10)}
    done |= {f"blur{sigma:.2f}": flim_augment.blur(a, sigma) for sigma in (0.30, 0.55, 0.80)}
    for line in AUGMENTED.splitlines():
        name, printed = line.split(" ", 1)
        results.near(name, moments(done[name]), printed, 1e-6)  # 1e-14 of the sums
    results.near("fields", [dx[10, 10], dy[10, 10], dx[0, 0], dy[20, 3]], "0.127972381 0.347369554 0.022204962 -0.067488287")
    results.near("packed chain", flim_augment.packed(chain).sum((1, 2, 3)), "12280.9986 109824")
    results.near("blur .3", flim_augment.gaussian(0.3), ".00383626 .99232748 .00383626")
    results.near("blur .55", flim_augment.gaussian(0.55)[:3], ".00097044 .13819585 .72166743")
    results.near("blur .8", flim_augment.gaussian(0.8)[:4], ".000440743 .021910314 .228310716 .498676452")
    # Only moments of Poisson noise are known; 30000 draws give a deviation to 0.4 %.
    off = flim_augment.poisson(numpy.full((10, 10, 300), 2.5), numpy.random.default_rng(1)) - 2.5
    assert abs(off.std() / math.sqrt(2.5e-3) - 1) < 0.02 and abs(off.mean()) < 5 * math.sqrt(2.5e-3 / 30000)


def check_recipe(results):
    """Targets and mixup, learning rates, sampler, splits, threshold."""
    z, labels = torch.tensor([0.3, -1.2, 2.0]), torch.tensor([0.0, 1, 1])
    permutation, share = torch.tensor([2, 0, 1]), 0.3
    targets = flim.smoothed(labels)
    results.near("targets", targets[:2], "0.025 0.975", 1e-15)
    bce = F.binary_cross_entropy_with_logits
    two = share * bce(z, targets) + (1 - share) * bce(z, targets[permutation])
    assert abs(two - bce(z, flim.mixup(z, targets, share, permutation)[1])) < 1e-15

    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 75, 1e-6)
    rates = []
    for _ in range(95):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    printed = {0: "1.0e-4", 1: "9.995658009e-5", 10: "9.572050015e-5", 37: "5.153664978e-5", 50: "2.575e-5",
               60: "1.045365878e-5", 74: "1.043419910e-6", 75: "1e-6", 76: "1.0434e-6", 85: "5.2795e-6", 94: "1.5867e-5"}
    for epoch, text in printed.items():
        formula = 1e-6 + (1e-4 - 1e-6) * (1 + math.cos(math.pi * epoch / 75)) / 2
        results.near(f"rate {epoch}", formula, text)
        assert abs(rates[epoch] - formula) < 1e-15, f"rate {epoch}: torch's {rates[epoch]}"

    for line in SPLITS.splitlines():
        tested, trained, validated, *printed = line.split()
        inactive, active = (sum(DONORS[donor][k] for donor in trained.split("+")) for k in (0, 1))
        n = inactive + active
        batches = [-(-n // 64), n % 64]
        row = [n, inactive, active, inactive / active, *batches, sum(DONORS[validated]), sum(DONORS[tested])]
        results.near(f"split {tested}", row, " ".join(printed))
    results.near("cells seen in an epoch, %", [100 * (1 - (1 - 0.5 / k) ** n) for k in (inactive, active)], "51 80")

    logit = lambda p: math.log(p / (1 - p))
    base, move = (0.10 + 0.85) / 2, logit(957 / 4167) - logit(active / n)
    results.near("threshold", [base, move, base - 0.1 * move], ".475 -.39395 .51440")


def small(linear):
    """Three steps of the small network."""
    share, permutation, labels = 0.25, torch.tensor([2, 0, 3, 1]), torch.tensor(LABELS, dtype=torch.float64)
    single = lambda array: torch.as_tensor(array).float().double()
    bright = numpy.arange(1, 5).reshape(4, 1, 1, 1, 1) / 4
    raw = single(bright * (1 + hashed(46, 4, 2, SMALL["bins"], SMALL["side"], SMALL["side"])) / 2)
    x, targets = (single(v) for v in flim.mixup(raw, flim.smoothed(labels), share, permutation))
    model = fill(flim.Flim(SMALL["channels"], linear=linear), single=True)
    model.classifier[4].weight.data *= 8
    batch = {"batch.x": x, "batch.targets": targets, "mixup.x": raw, "mixup.labels": labels.int()}
    batch |= {"mixup.share": torch.tensor([share]), "mixup.permutation": permutation.int()}
    batch |= {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY)
    out, losses, norms = {}, [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(x)
        losses.append(F.binary_cross_entropy_with_logits(logits, targets))
        losses[-1].backward()
        if step == 0:
            out |= {"logits": logits} | running(model)
            out |= {f"grad.{name}": model.get_parameter(name).grad.clone() for name in has_gradient(model, linear)}
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
        optimizer.step()
    out |= {"losses": torch.stack(losses), "norms": torch.stack(norms)}
    out |= {f"after.{name}": thinned(p) for name, p in model.named_parameters()} | running(model, "after.")
    out["after.eval_logits"] = model.eval()(x)
    return batch, {name: value.detach() for name, value in out.items()}


def augmented():
    """Returns all values of flim_augment."""
    a = counts(2, side=9, bins=32, start=6, radius=3)
    factors = lambda *values: numpy.array(values, numpy.float32).astype(float)
    uniform = [numpy.stack([hashed(j, 9, 9), hashed(j + 1, 9, 9)]).astype(numpy.float32).astype(float) for j in (1001, 1003)]
    fields = [numpy.stack([flim_augment.displacements(u) for u in pair]) for pair in uniform]
    given = {
        "shift": ("steps", numpy.array([5, -3, 0]), flim_augment.shift),
        "scale": ("factors", factors(0.6, 1.3), flim_augment.scale),
        "rotate": ("turns", numpy.array([1, 2, 3]), flim_augment.rotate),
        # Sides of 7, 8, 9, 10, 12.
        "zoom": ("factors", factors(0.75, 0.86, 1.02, 1.14, 1.3), flim_augment.zoom),
        "elastic": ("fields", numpy.stack(fields), lambda a, pair: flim_augment.elastic(a, *pair)),
        "blur": ("sigmas", factors(0.3, 0.55, 0.8), flim_augment.blur),
    }
    out = {"cell": a, "elastic.u": numpy.stack(uniform), "flip_y": flim_augment.flip_y(a), "flip_x": flim_augment.flip_x(a)}
    for name, (what, cases, apply) in given.items():
        out |= {f"{name}.{what}": cases, name: numpy.stack([apply(a, case) for case in cases])}
    size, sigma, scale = (given[name][1] for name in ("zoom", "blur", "scale"))
    out["chain.0"] = flim_augment.augment(a, 5, scale[0], 1, y=True, size=size[0], fields=fields[0], sigma=sigma[0])
    out["chain.1"] = flim_augment.augment(a, -3, scale[1], 2, x=True, size=size[-1], fields=fields[1], sigma=sigma[-1])
    return out | {f"chain.{k}.packed": flim_augment.packed(out[f"chain.{k}"]) for k in (0, 1)}


def save(name, values, double=()):
    """double: the values that are stored as F64."""
    stored = {}
    for key, value in values.items():
        array = numpy.ascontiguousarray(value)
        wide = array.dtype.kind != "i" and any(key.endswith(end) for end in double)
        stored[key] = array.astype("float64" if wide else "int32" if array.dtype.kind == "i" else "float32")
    path = pathlib.Path(__file__).parent / "golden" / f"{name}.safetensors"
    save_file(stored, path)
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, {len(stored)} tensors")


def thinned(value):
    return value.flatten()[::STRIDE] if value.numel() > WHOLE else value


def save_full(values, trained):
    out = {name: value for name, value in values.items() if not name.startswith("grad.")}
    gradients = {name: value for name, value in values.items() if name.startswith("grad.")}
    out |= {f"grad.{name}": thinned(gradients[f"grad.{name}"]) for name in trained}
    out["sums.grad"] = torch.stack([g.sum() for g in gradients.values()])
    out["norms.grad"] = torch.stack([g.norm() for g in gradients.values()])
    save("flim_full", out, double=[""])


def main():
    values, trained = full()
    for check in (check_inputs, check_sizes, check_augmentation, check_recipe, partial(check_full, values, trained)):
        results = Results()
        check(results)
        print(f"{results.count} printed numbers, at most {results.worst:.2f} of the last digit off ({results.where})")
    save_full(values, trained)
    batch, real = small(linear=False)
    linear = {f"linear.{name}": value for name, value in small(linear=True)[1].items()}
    save("flim_small", batch | real | linear, double=["losses", "norms", "logits"])
    save("flim_augment", augmented())


if __name__ == "__main__":
    main()
