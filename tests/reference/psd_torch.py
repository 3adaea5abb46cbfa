"""The PSD models in PyTorch, written from their specification, for make_golden_psd.py, check_psd_export.py and the
benchmarks. Parameters have the names, shapes and order of the reference implementation.

A row is 200 bins; its first 192 are 12 patches of 16. Mpae is pretrained: a masked autoencoder over patches plus a
contrastive term between two rows of one class; Classifier and CnnClassifier are trained after it.

sdpa: False calls attention as the reference does, with the default of need_weights, so that torch computes and averages all
probabilities; True lets torch use its fused attention.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

BINS, PATCH, PATCHES, CLASSES = 200, 16, 12, 6


def position_table(positions, width):
    """Returns sin and cos interleaved, in float32 as in the reference, whose state dict has this table."""
    p = torch.arange(positions, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    return torch.stack([torch.sin(p * rate), torch.cos(p * rate)], 2).reshape(1, positions, width)


class Positions(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("pe", position_table(PATCHES + 1, d))


class PatchEmbed(nn.Module):
    def __init__(self, d, dropout):
        super().__init__()
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, d))
        self.projection = nn.Linear(PATCH, d)
        self.pos_enc = Positions(d)
        self.layer_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows):
        """[B, 200] -> [B, 13, d]: the class token and the patches."""
        patches = self.projection(patches_of(rows))
        tokens = torch.cat([self.cls_token.expand(len(rows), 1, -1), patches], 1) + self.pos_enc.pe
        return self.dropout(self.layer_norm(tokens))

    def visible(self, rows, index):
        """[B, V, d]: the patches of index alone; neither class token nor layer norm."""
        return take(self.projection(patches_of(rows)), index) + self.pos_enc.pe[0, index + 1]


class EncoderLayer(nn.Module):
    def __init__(self, d, heads, ffn, dropout, sdpa):
        super().__init__()
        self.sdpa = sdpa
        self.norm1 = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, dropout=dropout, batch_first=True)
        self.norm2 = nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, ffn), nn.GELU(), nn.Dropout(dropout), nn.Linear(ffn, d), nn.Dropout(dropout))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=not self.sdpa)[0]
        return x + self.ffn(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, d, layers, heads, ffn, dropout, sdpa):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d, heads, ffn, dropout, sdpa) for _ in range(layers))
        self.final_norm = nn.LayerNorm(d)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final_norm(x)


class CnnBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm1d(outputs)
        self.conv2 = nn.Conv1d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm1d(outputs)
        self.shortcut = nn.Sequential(nn.Conv1d(inputs, outputs, 1, stride=2, bias=False), nn.BatchNorm1d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.gelu(self.bn1(self.conv1(x)))))
        return F.gelu(y + self.shortcut(x))


class CnnEncoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm1d(64), nn.GELU())
        self.blocks = nn.Sequential(CnnBlock(64, 64), CnnBlock(64, 128), CnnBlock(128, 256))
        self.projector = nn.Linear(256, d)

    def forward(self, rows):
        return self.projector(self.blocks(self.stem(rows[:, None])).mean(2))


class Decoder(nn.Module):
    def __init__(self, d, width, layers, dropout):
        super().__init__()
        self.mask_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, PATCHES, width))
        self.input_proj = nn.Linear(d, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, "gelu", batch_first=True, norm_first=True)
        self.decoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output_proj = nn.Linear(width, PATCH)

    def forward(self, x, visible, masked):
        x = self.input_proj(x)
        full = self.mask_token.to(x.dtype).expand(len(x), PATCHES, -1)
        full = full.scatter(1, visible[..., None].expand_as(x), x)
        return self.output_proj(take(self.decoder(full + self.pos_embed), masked))


class ProjectionHead(nn.Module):
    def __init__(self, d, q):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, q))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class Mpae(nn.Module):
    """Without layers the encoder is the CNN, and the tokens of the autoencoder go directly to the decoder."""

    def __init__(self, d, layers, heads, ffn, e, decoder_layers, q, masked=7, dropout=0.0, sdpa=False):
        super().__init__()
        self.n_visible = PATCHES - masked
        self.patch_embed = PatchEmbed(d, dropout)
        self.encoder = Encoder(d, layers, heads, ffn, dropout, sdpa) if layers else CnnEncoder(d)
        self.decoder = Decoder(d, e, decoder_layers, dropout)
        self.projection_head = ProjectionHead(d, q)

    def draw(self, rows):
        """Draws the visible patches of each row, ascending."""
        noise = torch.rand(len(rows), PATCHES, device=rows.device)
        return noise.argsort(1)[:, : self.n_visible].sort(1).values

    def predict(self, rows, visible):
        """Returns predictions [B, M, 16] of the masked patches, and their targets."""
        masked = complement(visible)
        tokens = self.patch_embed.visible(rows, visible)
        if isinstance(self.encoder, Encoder):
            tokens = self.encoder(tokens)
        return self.decoder(tokens, visible, masked), take(patches_of(rows), masked)

    def features(self, rows):
        return class_features(self, rows)

    def parts(self, anchor, positive, visible):
        """Returns the reconstruction loss and the contrastive loss."""
        prediction, target = self.predict(anchor, visible)
        z = [self.projection_head(self.features(rows)) for rows in (anchor, positive)]
        return F.mse_loss(prediction, target), nt_xent(*z, 0.07)

    def loss(self, anchor, positive, visible=None):
        mae, sicr = self.parts(anchor, positive, self.draw(anchor) if visible is None else visible)
        return mae + 0.1 * sicr


class Head(nn.Module):
    """hidden 0: one linear layer."""

    def __init__(self, d, hidden, dropout):
        super().__init__()
        out = nn.Linear(hidden or d, CLASSES)
        self.head = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Dropout(dropout), out) if hidden else out

    def forward(self, x):
        return self.head(x)


class Classifier(nn.Module):
    """Without layers the encoder is the CNN, which has no patches."""

    def __init__(self, d, layers, heads, ffn, hidden, dropout=0.0, head_dropout=0.0, sdpa=False):
        super().__init__()
        if layers:
            self.patch_embed = PatchEmbed(d, dropout)
        self.encoder = Encoder(d, layers, heads, ffn, dropout, sdpa) if layers else CnnEncoder(d)
        self.classifier = Head(d, hidden, head_dropout)
        self.register_buffer("class_weights", torch.ones(CLASSES))

    def features(self, rows):
        return class_features(self, rows)

    def forward(self, rows):
        return self.classifier(self.features(rows))

    def loss(self, rows, labels):
        return F.cross_entropy(self(rows), labels, self.class_weights)


def class_features(model, rows):
    """Returns [B, d], the output of the class token or of the CNN."""
    return model.encoder(model.patch_embed(rows))[:, 0] if isinstance(model.encoder, Encoder) else model.encoder(rows)


def patches_of(rows):
    return rows[:, : PATCHES * PATCH].unflatten(1, (PATCHES, PATCH))


def take(x, index):
    """Gathers tokens: x [B, 12, C], index [B, K] -> [B, K, C]."""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))


def complement(visible):
    """Returns the patches that are not in visible [B, V], ascending."""
    left = torch.ones(len(visible), PATCHES, device=visible.device).scatter(1, visible, 0)
    return left.argsort(dim=1, descending=True, stable=True)[:, : PATCHES - visible.shape[1]]


def nt_xent(anchors, positives, temperature):
    """Returns the NT-Xent loss: each of 2B rows must find its partner among the other rows."""
    z, n = torch.cat([anchors, positives]), len(anchors)
    similar = (z @ z.T / temperature).masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), -math.inf)
    return F.cross_entropy(similar, torch.arange(2 * n, device=z.device).roll(n))
