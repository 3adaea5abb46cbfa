"""The augmentations of the FLIM trainer in NumPy, float64, written from their specification, with given random numbers.

A cell is [height, width, bins] of photon counts, y before x. augment() applies them in the order of training.
"""
import numpy


def shift(a, steps):
    """Shifts along time and fills with 0."""
    out = numpy.zeros_like(a)
    bins = a.shape[2]
    out[..., max(steps, 0) : bins + min(steps, 0)] = a[..., max(-steps, 0) : bins - max(steps, 0)]
    return out


def scale(a, factor):
    return a * factor


def rotate(a, turns):
    """Rotates by quarter turns; one turn is out[i, j] = in[j, side - 1 - i]."""
    return numpy.rot90(a, turns)


def flip_y(a):
    return a[::-1]


def flip_x(a):
    return a[:, ::-1]


def poisson(a, draw):
    """Adds Poisson noise as if each count were a thousand photons. draw: a numpy.random.Generator."""
    return draw.poisson(1000 * a) / 1000


def zoom(a, factor):
    """Resizes bilinearly with aligned corners, then crops or pads with 0 to the old size around the middle."""
    side = len(a)
    n = round(side * factor)
    lines = numpy.zeros((n, side))
    at = numpy.arange(n) * (side - 1) / (n - 1)
    first = numpy.minimum(at.astype(int), side - 2)
    lines[numpy.arange(n), first] = 1 - (at - first)
    lines[numpy.arange(n), first + 1] = at - first
    big = along_both(lines, a)
    if n > side:
        before = (n - side) // 2
        return big[before : before + side, before : before + side]
    before = (side - n) // 2
    out = numpy.zeros(a.shape)
    out[before : before + n, before : before + n] = big
    return out


def displacements(u):
    """Turns uniform numbers [side, side] in -1...1 into a smooth field in pixels for elastic()."""
    return 5 * along_both(smoothing(len(u), 2.0, reflect=False), u[..., None])[..., 0]


def elastic(a, dx, dy):
    """out[y, x] = a at (y + dy, x + dx), bilinear; one field for all bins."""
    side = len(a)
    y, x = numpy.mgrid[:side, :side]
    y, x = y + dy, x + dx
    top, left = numpy.floor(y).astype(int), numpy.floor(x).astype(int)
    down, right = (y - top)[..., None], (x - left)[..., None]
    at = lambda i, j: a[reflected(top + i, side), reflected(left + j, side)]
    return (1 - down) * ((1 - right) * at(0, 0) + right * at(0, 1)) + down * ((1 - right) * at(1, 0) + right * at(1, 1))


def blur(a, sigma):
    return along_both(smoothing(len(a), sigma, reflect=True), a)


def gaussian(sigma):
    """Returns the weights of -radius...radius, with the sum 1."""
    radius = int(4 * sigma + 0.5)
    weights = numpy.exp(-0.5 * (numpy.arange(-radius, radius + 1) / sigma) ** 2)
    return weights / weights.sum()


def smoothing(side, sigma, reflect):
    """Returns [side, side], which smooths a line by multiplication. The line is mirrored, or 0, beyond its ends."""
    weights = gaussian(sigma)
    out = numpy.zeros((side, side))
    for k, weight in enumerate(weights):
        to = numpy.arange(side)
        source = to + k - len(weights) // 2
        inside = (0 <= source) & (source < side) | reflect
        out[to[inside], reflected(source, side)[inside]] += weight
    return out


def reflected(i, side):
    """... 1 0 | 0 1 2 ... side - 1 | side - 1 ..."""
    i = i % (2 * side)
    return numpy.minimum(i, 2 * side - 1 - i)


def along_both(lines, a):
    return numpy.einsum("iy,jx,yxt->ijt", lines, lines, a, optimize=True)


def augment(a, steps=0, factor=1.0, turns=0, y=False, x=False, noise=None, size=1.0, fields=None, sigma=None):
    """Applies the augmentations that are given. fields: dx and dy."""
    a = rotate(scale(shift(a, steps), factor), turns)
    a = flip_y(a) if y else a
    a = flip_x(a) if x else a
    a = a if noise is None else poisson(a, noise)
    a = a if size == 1 else zoom(a, size)
    a = a if fields is None else elastic(a, *fields)
    return a if sigma is None else blur(a, sigma)


def packed(a):
    """Returns the input of the network, [2, bins, height, width]: log counts, and the pixels with any photon."""
    footprint = numpy.broadcast_to(a.sum(2, keepdims=True) > 0, a.shape)
    return numpy.stack([numpy.log1p(a) / 10, footprint]).transpose(0, 3, 1, 2)
