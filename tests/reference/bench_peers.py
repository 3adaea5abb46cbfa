"""The models in PyTorch that the benchmarks time beside ours, their micro-batches, and their training."""
import itertools
import time
from typing import NamedTuple

import cv_torch as flim
import psd_torch as psd
import torch
import torch.nn.functional as F
from torch import nn


class Packed(NamedTuple):
    """The sequences of rows that lie end to end."""

    offsets: torch.Tensor
    lengths: list

    def to(self, device):
        return Packed(self.offsets.to(device), self.lengths)


def pack(lengths):
    return Packed(torch.tensor([0, *itertools.accumulate(lengths)]), list(lengths))


def attend(qkv, heads, dropout, causal, mask=None):
    """Attention of rows [B, T, 3 d], of which the mask says which are real, or of packed rows [N, 3 d]."""
    if isinstance(mask, Packed):
        return attend_packed(qkv, heads, dropout, causal, mask)
    b, t, d = qkv.shape
    q, k, v = (z.view(b, t, heads, -1).transpose(1, 2) for z in qkv.split(d // 3, 2))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    return y.transpose(1, 2).reshape(b, t, d // 3)


@torch.compiler.disable
def attend_packed(qkv, heads, dropout, causal, packed):
    parts = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    if qkv.is_cuda:
        limits = {"min_seqlen": min(packed.lengths), "max_seqlen": max(packed.lengths)}
        parts = (torch.nested.nested_tensor_from_jagged(z, packed.offsets, **limits).transpose(1, 2) for z in parts)
        y = F.scaled_dot_product_attention(*parts, dropout_p=dropout, is_causal=causal)
        return y.transpose(1, 2).flatten(-2).values()
    sequences = zip(*(z.transpose(0, 1)[None].split(packed.lengths, 2) for z in parts))
    ys = [F.scaled_dot_product_attention(*sequence, dropout_p=dropout, is_causal=causal) for sequence in sequences]
    return torch.cat(ys, 2)[0].transpose(0, 1).flatten(-2)


def padded(lengths, multiple):
    return -(-max(lengths) // multiple) * multiple


class Block(nn.Module):
    def __init__(self, d, heads, bias=True, gelu="tanh", dropout=0.1):
        super().__init__()
        self.heads, self.gelu, self.dropout = heads, gelu, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(d, bias=bias), nn.LayerNorm(d, bias=bias)
        self.attn, self.proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.fc, self.out = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x, mask=None):
        y = attend(self.attn(self.ln_1(x)), self.heads, self.dropout, True, mask)
        x = x + F.dropout(self.proj(y), self.dropout)
        return x + F.dropout(self.out(F.gelu(self.fc(self.ln_2(x)), approximate=self.gelu)), self.dropout)


class Gpt2(nn.Module):
    def __init__(self, vocabulary, d, layers, heads, positions, bias, gelu, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(positions, d)
        self.blocks = nn.ModuleList(Block(d, heads, bias, gelu, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d, bias=bias)

    def loss(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(x, self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Tts(nn.Module):
    def __init__(self, d, layers, heads, v, k, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.text, self.mel = nn.Embedding(v + 1, d), nn.Embedding(k + 2, d)
        self.text_pos, self.mel_pos = nn.Embedding(602, d), nn.Embedding(1818, d)
        self.blocks = nn.ModuleList(Block(d, heads, dropout=dropout) for _ in range(layers))
        self.ln_f, self.norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.text_head, self.mel_head = nn.Linear(d, v + 1), nn.Linear(d, k + 2)

    def hidden(self, x, mask=None):
        x = F.dropout(x, self.dropout)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(self.ln_f(x))

    def loss(self, *batch):
        return self.loss_packed(*batch) if isinstance(batch[0], Packed) else self.loss_padded(*batch)

    def loss_padded(self, cond, text, text_target, text_mask, mel, mel_target, mel_mask):
        t, m = text.shape[1], mel.shape[1]
        places = torch.arange(max(t, m), device=text.device)
        x = torch.cat([cond, self.text(text) + self.text_pos(places[:t]), self.mel(mel) + self.mel_pos(places[:m])], 1)
        x = self.hidden(x)[:, cond.shape[1] :]
        total = 0
        for head, hidden, target, mask, weight in (
            (self.text_head, x[:, :t], text_target, text_mask, 0.2),
            (self.mel_head, x[:, t:], mel_target, mel_mask, 0.8),
        ):
            ce = F.cross_entropy(head(hidden).transpose(1, 2), target, reduction="none")
            total = total + weight * (ce * mask).sum() / mask.sum()
        return total

    def loss_packed(self, packed, order, cond, text, text_places, text_rows, text_target, mel, mel_places, mel_rows, mel_target):
        parts = [cond, self.text(text) + self.text_pos(text_places), self.mel(mel) + self.mel_pos(mel_places)]
        x = self.hidden(torch.cat(parts)[order], packed)
        text_loss = F.cross_entropy(self.text_head(x[text_rows]), text_target)
        return 0.2 * text_loss + 0.8 * F.cross_entropy(self.mel_head(x[mel_rows]), mel_target)


CONDITIONING = 34  # rows before the text


def tts_padded(d, v, k, lengths, multiple=1):
    lt, lm = (padded([n[w] + 2 for n in lengths], multiple) for w in (0, 1))
    text, mel = torch.randint(v, (len(lengths), lt)), torch.randint(k, (len(lengths), lm))
    masks = [torch.tensor([[float(i <= n[w]) for i in range(size)] for n in lengths]) for w, size in ((0, lt), (1, lm))]
    cond = torch.randn(len(lengths), CONDITIONING, d)
    return cond, text, text.roll(-1, 1), masks[0], mel, mel.roll(-1, 1), masks[1]


def tts_packed(d, v, k, lengths):
    """A sequence has its conditioning rows, then start, text and stop, then start and codes."""
    texts, codes = [a + 2 for a, _ in lengths], [c + 1 for _, c in lengths]
    first_text = CONDITIONING * len(lengths)
    first_code = first_text + sum(texts)
    order, text_rows, mel_rows = [], [], []
    for i, (t, c) in enumerate(zip(texts, codes)):
        row, text, code = len(order) + CONDITIONING, first_text + sum(texts[:i]), first_code + sum(codes[:i])
        order += [*range(CONDITIONING * i, CONDITIONING * (i + 1)), *range(text, text + t), *range(code, code + c)]
        text_rows += range(row, row + t - 1)
        mel_rows += range(row + t, row + t + c)
    places = [torch.tensor([i for n in sizes for i in range(n)]) for sizes in (texts, codes)]
    ids = [torch.randint(limit, (sum(sizes),)) for limit, sizes in ((v, texts), (k, codes))]
    targets = [torch.randint(limit, (len(rows),)) for limit, rows in ((v, text_rows), (k, mel_rows))]
    return (pack([CONDITIONING + t + c for t, c in zip(texts, codes)]), torch.tensor(order), torch.randn(first_text, d),
            ids[0], places[0], torch.tensor(text_rows), targets[0], ids[1], places[1], torch.tensor(mel_rows), targets[1])


class Layer(nn.Module):
    """Of BERT: norms behind the sums."""

    def __init__(self, d, heads, dropout):
        super().__init__()
        self.heads, self.dropout, self.ln_1, self.ln_2 = heads, dropout, nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.proj, self.fc, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        y = attend(self.attn(x), self.heads, self.dropout, False, mask)
        x = self.ln_1(x + F.dropout(self.proj(y), self.dropout))
        return self.ln_2(x + F.dropout(self.out(F.gelu(self.fc(x))), self.dropout))


class PhoBert(nn.Module):
    """The base model with a head for two classes."""

    def __init__(self, vocabulary=64001, positions=258, d=768, layers=12, heads=12, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.word, self.position, self.kind = nn.Embedding(vocabulary, d), nn.Embedding(positions, d), nn.Embedding(1, d)
        self.ln, self.layers = nn.LayerNorm(d), nn.ModuleList(Layer(d, heads, dropout) for _ in range(layers))
        self.dense, self.out = nn.Linear(d, d), nn.Linear(d, 2)
        self.register_buffer("weights", torch.tensor([0.605, 2.889]))

    def loss(self, ids, places, mask, labels):
        x = F.dropout(self.ln(self.word(ids) + self.kind.weight + self.position(places)), self.dropout)
        for layer in self.layers:
            x = layer(x, mask)
        first = F.dropout(x[mask.offsets[:-1]] if isinstance(mask, Packed) else x[:, 0], self.dropout)
        return F.cross_entropy(self.out(F.dropout(torch.tanh(self.dense(first)), self.dropout)), labels, self.weights)


def phobert_padded(lengths, multiple=1):
    t = padded(lengths, multiple)
    mask = (torch.arange(t) < torch.tensor(lengths)[:, None])[:, None, None]
    return torch.randint(4, 64000, (len(lengths), t)), torch.arange(t) + 2, mask, torch.randint(2, (len(lengths),))


def phobert_packed(lengths):
    places = torch.cat([torch.arange(n) + 2 for n in lengths])
    return torch.randint(4, 64000, places.shape), places, pack(lengths), torch.randint(2, (len(lengths),))


def gpt_batch(vocabulary, b, t):
    return torch.randint(vocabulary, (2, b, t))


def psd_batch(task, b):
    return torch.randn(b, psd.BINS), torch.randn(b, psd.BINS) if task == "pretrain" else torch.randint(psd.CLASSES, (b,))


def psd_model(task, sizes, sdpa):
    """Pretrains as the reference does: the encoder runs once on 5 visible patches and twice on 13 tokens. Unless sdpa, attention
    returns its probabilities."""
    encoder, decoder, hidden = sizes
    if task == "pretrain":
        return psd.Mpae(*encoder, *decoder, dropout=0.1, sdpa=sdpa)
    return psd.Classifier(*encoder, hidden, 0.1, 0.2, sdpa=sdpa)


LAYOUTS = (torch.contiguous_format, torch.channels_last_3d)


def flim_model(layout):
    return flim.Flim(**flim.A).to(memory_format=layout)


def flim_batch(layout, b):
    return torch.rand(b, 2, flim.BINS, flim.SIDE, flim.SIDE).to(memory_format=layout), torch.randint(2, (b,)).float()


class Peer:
    """A model that is trained as ours is."""

    def __init__(self, model, g, dtype=torch.float32, device="cpu"):
        self.model, self.g, self.dtype, self.device = model.to(device), g, dtype, device
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        self.scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def step(self, loss_of, batches):
        self.optimizer.zero_grad(set_to_none=True)
        for _, batch in batches:
            with torch.autocast(self.device, self.dtype, enabled=self.dtype != torch.float32):
                loss = loss_of(*batch) / self.g
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def timer(self, batches, compiled):
        """Returns a function that trains a step on each g micro-batches and returns the seconds per real row."""
        batches = [(rows, [x.to(self.device) for x in batch]) for rows, batch in batches]
        steps = [batches[i : i + self.g] for i in range(0, len(batches), self.g)]
        ragged = True if len({tuple(x.shape for x in batch if torch.is_tensor(x)) for _, batch in batches}) > 1 else None
        loss_of = torch.compile(self.model.loss, dynamic=ragged) if compiled else self.model.loss

        def run():
            seconds = 0
            for step in steps:
                self.wait()
                start = time.perf_counter()
                self.step(loss_of, step)
                self.wait()
                seconds += time.perf_counter() - start
            return seconds / sum(rows for rows, _ in batches)

        return run
