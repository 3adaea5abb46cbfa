"""The FLIM classifier in PyTorch, written from its specification, for make_golden_cv.py and the benchmarks. Parameters
have the names, shapes and order of the reference implementation.

A cell is [2, bins, height, width] (T, H, W): log counts and the footprint. The network has a stem along time only, three
residual blocks that halve the plane, poolings that halve the time, a global mean, two linear layers and one logit: "active".

channels: of the three blocks; 32, 64, 128 in the reference, fewer in tests.
dropout: of whole channels between the blocks (configuration A: 0.25, B: 0). head_dropout: 0.25 in both.
linear: removes everything that makes gradients jump, for tight comparisons: leaky ReLU has slope 1, and poolings average.
"""
import torch.nn.functional as F
from torch import nn

CHANNELS, BINS, SIDE = (32, 64, 128), 256, 21
A = {"dropout": 0.25, "head_dropout": 0.25}
B = {"dropout": 0.0, "head_dropout": 0.25}


def conv(inputs, outputs, kernel, stride=1):
    """Pads so that a stride of 1 keeps the size."""
    kernel, stride = ((k,) * 3 if isinstance(k, int) else k for k in (kernel, stride))
    return nn.Conv3d(inputs, outputs, kernel, stride, tuple(k // 2 for k in kernel))


class Block(nn.Module):
    """halves: halves the plane; the shortcut then has a convolution too."""

    def __init__(self, inputs, outputs, slope, halves):
        super().__init__()
        stride = (1, 2, 2) if halves else 1
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm3d(outputs)
        self.relu = nn.LeakyReLU(slope)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm3d(outputs)
        self.shortcut = nn.Sequential()
        if halves:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm3d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


class Flim(nn.Module):
    def __init__(self, channels=CHANNELS, dropout=0.0, head_dropout=0.0, linear=False):
        super().__init__()
        first, second, third = channels
        slope, pool = (1.0, nn.AvgPool3d) if linear else (0.01, nn.MaxPool3d)
        self.stem = nn.Sequential(conv(2, first, (7, 1, 1)), nn.BatchNorm3d(first), nn.LeakyReLU(slope))
        halved = conv(first, first, (3, 1, 1), (2, 1, 1))
        self.downsample1 = nn.Sequential(halved, nn.BatchNorm3d(first), nn.LeakyReLU(slope))
        self.res_block1 = Block(first, first, slope, halves=False)
        self.dropout1 = nn.Dropout3d(dropout)
        self.res_block2 = Block(first, second, slope, halves=True)
        self.pool2, self.dropout2 = pool((2, 1, 1)), nn.Dropout3d(dropout)
        self.res_block3 = Block(second, third, slope, halves=True)
        self.pool3, self.dropout3 = pool((2, 1, 1)), nn.Dropout3d(dropout)
        self.global_pool = nn.AdaptiveAvgPool3d(1)
        head = nn.Linear(third, second), nn.BatchNorm1d(second), nn.LeakyReLU(slope), nn.Dropout(head_dropout)
        self.classifier = nn.Sequential(*head, nn.Linear(second, 1))

    def forward(self, x):
        """[B, 2, T, H, W] -> [B] logits."""
        x = self.dropout1(self.res_block1(self.downsample1(self.stem(x))))
        x = self.dropout2(self.pool2(self.res_block2(x)))
        x = self.dropout3(self.pool3(self.res_block3(x)))
        return self.classifier(self.global_pool(x).flatten(1)).squeeze(1)

    def loss(self, x, targets):
        return F.binary_cross_entropy_with_logits(self(x), targets)


def initialize_b(model):
    """Initialises for configuration B: normal by fan-out, zero biases. Configuration A has the defaults of torch."""
    for module in model.modules():
        if isinstance(module, (nn.Conv3d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return model


def smoothed(labels):
    return 0.95 * labels + 0.025


def mixup(x, targets, share, permutation):
    """Mixes each sample with its partner; share is that of the sample. The reference weights two losses instead of mixing
    targets, which is the same because the loss is linear in the targets."""
    return share * x + (1 - share) * x[permutation], share * targets + (1 - share) * targets[permutation]
