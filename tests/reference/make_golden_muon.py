"""Makes golden values for tests/kernels/test_muon.c: five Muon steps of several matrices in float64.

    python make_golden_muon.py          writes golden/muon.safetensors (stored as float32)

The update is computed from the singular value decomposition G = U S V^T: five applications of an odd polynomial to a
matrix are five applications to its singular values, U p(p(p(p(p(S / |G|))))) V^T. No matrix is iterated here. The steps
are then repeated with torch.optim.Muon, whose products are in bfloat16, and must agree to its precision.

Per case there are "p" and "m" before the first step, "grads" [5, rows, columns], "norms" [5], the norms to which the
clipping at 1 refers, and "p_after", "m_after". The cases "fused_rows" and "fused_columns" are three matrices each.
"""
import pathlib

import numpy
import torch
from safetensors.numpy import save_file

STEPS, MOMENTUM, DECAY, CLIP = 5, 0.95, 0.1, 1.0
RATES = (0.02, 0.05, 0.03, 0.01, 0.04)
A, B, C = 3.4445, -4.7750, 2.0315
# name: rows, columns, parts, axis along which the parts lie
CASES = {"wide": (6, 20, 1, 0), "tall": (24, 7, 1, 0), "square": (16, 16, 1, 0), "row": (1, 9, 1, 0), "column": (9, 1, 1, 0),
         "fused_rows": (24, 8, 3, 0), "fused_columns": (8, 24, 3, 1)}


def orthogonalized(g):
    u, s, vt = numpy.linalg.svd(g, full_matrices=False)
    s = s / max(numpy.sqrt((s * s).sum()), 1e-7)
    for _ in range(5):
        s = s * (A + s * s * (B + s * s * C))
    return (u * s) @ vt


def muon_step(p, m, g, rate, clip):
    """Updates p and m in place."""
    g = g * clip
    m[:] = MOMENTUM * m + (1 - MOMENTUM) * g
    x = orthogonalized(MOMENTUM * m + (1 - MOMENTUM) * g)
    p[:] = p * (1 - rate * DECAY) - rate * 0.2 * numpy.sqrt(max(p.shape)) * x


def torch_steps(p, m, grads, norms):
    """Returns the parameter after the same steps of torch.optim.Muon."""
    parameter = torch.nn.Parameter(torch.from_numpy(p.copy()).float())
    optimizer = torch.optim.Muon([parameter], lr=1.0, weight_decay=DECAY, momentum=MOMENTUM, nesterov=True,
                                 adjust_lr_fn="match_rms_adamw")
    optimizer.state[parameter]["momentum_buffer"] = torch.from_numpy(m.copy()).float()
    for rate, g, norm in zip(RATES, grads, norms):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.from_numpy(g * min(1.0, CLIP / (norm + 1e-6))).float()
        optimizer.step()
    return parameter.detach().double().numpy()


def main():
    random = numpy.random.default_rng(20260731)
    tensors = {}
    for name, (rows, columns, n_parts, axis) in CASES.items():
        # stored as float32, so that the test starts from the same numbers
        p, m, grads = (random.normal(size=shape).astype(numpy.float32).astype(numpy.float64)
                       for shape in ((rows, columns), (rows, columns), (STEPS, rows, columns)))
        norms = numpy.array([3.0, 0.5, 0.25, 7.0, 1.5])
        tensors |= {f"{name}.p": p.copy(), f"{name}.m": m.copy(), f"{name}.grads": grads, f"{name}.norms": norms}
        for number, (part, momentum) in enumerate(zip(numpy.split(p, n_parts, axis), numpy.split(m, n_parts, axis))):
            part_grads = [numpy.split(g, n_parts, axis)[number] for g in grads]
            start = part.copy()
            theirs = torch_steps(part, momentum, part_grads, norms)
            for rate, g, norm in zip(RATES, part_grads, norms):
                muon_step(part, momentum, g, rate, min(1.0, CLIP / (norm + 1e-6)))
            error = numpy.linalg.norm(theirs - part) / numpy.linalg.norm(part - start)
            print(f"{name}: torch.optim.Muon {torch.__version__} differs by {error:.2e} of the change")
            assert error < 0.05, "more than the rounding of bfloat16"
        tensors |= {f"{name}.p_after": p, f"{name}.m_after": m}
    path = pathlib.Path(__file__).parent / "golden" / "muon.safetensors"
    save_file({name: numpy.ascontiguousarray(value, dtype=numpy.float32) for name, value in tensors.items()}, path)


if __name__ == "__main__":
    main()
