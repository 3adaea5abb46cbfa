"""Makes golden values for tests/bert with transformers' RoBERTa in float64.

    python make_golden_bert.py          writes golden/bert.safetensors and bert_pad.safetensors (stored as float32 / int32)

Six texts of a vocabulary of 53: <s> 0, <pad> 1, </s> 2, <unk> 3, 48 letters, <mask>. transformers gets them padded. Two
models share their encoder:

 - "classes"  RobertaForSequenceClassification, three classes, with class weights and label smoothing: the logits, and the
              loss as torch's cross_entropy computes it.
 - "masked"   RobertaForMaskedLM, whose decoder is the token table: some pieces are masked, replaced, or kept.

Of both: the loss, the hits, every gradient, and after five steps of torch's AdamW with clipping and a linearly falling
rate the weights, the losses and the norms before clipping. "small" are steps at the rate of a fine-tuning, "large" at one
that moves weights by more than their rounding.

The bias of the keys is left out of gradients and steps: its gradient is zero but for rounding.

bert_pad.safetensors has the same weights and texts, in which some pieces are a <pad> that the text itself writes out: it is
attended to, and has the position and the gradients that transformers gives it. Of it there are the logits, the losses and
the gradients of the embeddings.
"""
import pathlib

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification

BEGIN, PAD, END, MASK, LETTERS = 0, 1, 2, 52, (4, 52)
LENGTHS, LABELS = [9, 4, 3, 13, 6, 3], [0, 2, 1, 0, 0, 2]
CLASS_WEIGHTS, SMOOTHING = [0.6, 1.1, 2.8], 0.1
STEPS, TOTAL, WEIGHT_DECAY, CLIP = 5, 10, 0.01, 1.0
RATES = {"small": 2e-5, "large": 1e-3}
SIZES = dict(vocab_size=53, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
             max_position_embeddings=18, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0,
             attention_probs_dropout_prob=0, pad_token_id=PAD, bos_token_id=BEGIN, eos_token_id=END, num_labels=3)
torch.set_default_dtype(torch.float64)


def build(kind):
    return kind(RobertaConfig(**SIZES)).double().train()


def initial_weights():
    """Every value is random, so that no term of a gradient is zero."""
    random, weights = numpy.random.default_rng(20241023), {}
    for kind in (RobertaForSequenceClassification, RobertaForMaskedLM):
        for name, p in build(kind).named_parameters():
            if name in weights:
                continue
            gain = "LayerNorm.weight" in name or "layer_norm.weight" in name
            scale = 0.5 if "embeddings.weight" in name else 0.2
            value = random.normal(0, scale, tuple(p.shape)) + gain
            weights[name] = torch.tensor(value.astype(numpy.float32), dtype=torch.float64)
    return weights


def load(kind, weights):
    model = build(kind)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights[name])
    return model


def pad(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([list(row) + [value] * (longest - len(row)) for row in rows])


def texts(random):
    return [[BEGIN, *random.integers(*LETTERS, n - 2).tolist(), END] for n in LENGTHS]


def masked(random, rows):
    """Returns the inputs, and the ids to be predicted, -100 elsewhere: two of five pieces, at least one of each text that has
    pieces. They are replaced by <mask>, by another letter and by themselves, in turn."""
    inputs, labels, turn = [list(row) for row in rows], [[-100] * len(row) for row in rows], 0
    for row, label in zip(inputs, labels):
        for i in sorted(random.permutation(numpy.arange(1, len(row) - 1))[: (2 * len(row)) // 5].tolist()):
            label[i] = row[i]
            row[i] = [MASK, int(random.integers(*LETTERS)), row[i]][turn % 3]
            turn += 1
    return inputs, labels


def attended(rows):
    return pad([[1] * len(row) for row in rows], 0)


def classes_loss(model, rows, labels):
    logits = model(input_ids=pad(rows, PAD), attention_mask=attended(rows)).logits
    loss = F.cross_entropy(logits, labels, weight=torch.tensor(CLASS_WEIGHTS), label_smoothing=SMOOTHING)
    return loss, logits.argmax(1) == labels, logits


def masked_loss(model, rows, labels):
    labels = pad(labels, -100)
    logits = model(input_ids=pad(rows, PAD), attention_mask=attended(rows)).logits[labels >= 0]
    labels = labels[labels >= 0]
    return F.cross_entropy(logits, labels), logits.argmax(1) == labels, logits


def decayed(name):
    return not name.endswith(".bias") and "LayerNorm" not in name and "layer_norm" not in name


def steps(model, loss_of, data, rate):
    """Trains. Returns the losses and the norms before clipping."""
    groups = [{"params": [p for name, p in model.named_parameters() if decayed(name) == on],
               "weight_decay": WEIGHT_DECAY if on else 0} for on in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: (TOTAL - k) / TOTAL)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *data)[0]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
        schedule.step()
    return losses, norms


def named(prefix, model, value_of):
    return {prefix + name: single(value_of(p)) for name, p in model.named_parameters() if not name.endswith("self.key.bias")}


def single(t):
    return numpy.ascontiguousarray(numpy.asarray(t.detach() if torch.is_tensor(t) else t).astype(numpy.float32))


def ints(t):
    return numpy.asarray(t).astype(numpy.int32)


def padded(rows, inputs, predicted, weights):
    """Writes <pad> over the second and the fifth piece of the texts that have them, but over no piece to be predicted."""
    def write(rows, free):
        return [[PAD if i in (2, 5) and i < len(row) - 1 and free(s, i) else id for i, id in enumerate(row)]
                for s, row in enumerate(rows)]

    rows, inputs = write(rows, lambda s, i: True), write(inputs, lambda s, i: predicted[s][i] < 0)
    flat = lambda rows: ints([i for row in rows for i in row])
    out = {"ids": flat(rows), "masked.ids": flat(inputs)}
    for task, kind, loss_of, data in (
        ("classes", RobertaForSequenceClassification, classes_loss, (rows, torch.tensor(LABELS))),
        ("masked", RobertaForMaskedLM, masked_loss, (inputs, predicted)),
    ):
        model = load(kind, weights)
        loss, hits, logits = loss_of(model, *data)
        loss.backward()
        out |= {f"{task}.means": single([loss.item(), hits.double().mean().item()]), f"{task}.logits": single(logits)}
        out |= {f"{task}.grad.{name}": single(p.grad) for name, p in model.named_parameters() if "embeddings" in name}
    save_file(out, pathlib.Path(__file__).parent / "golden" / "bert_pad.safetensors")


def main():
    random, weights = numpy.random.default_rng(12), initial_weights()
    rows = texts(random)
    inputs, predicted = masked(random, rows)
    flat = lambda rows: [i for row in rows for i in row]
    where = numpy.flatnonzero(numpy.array(flat(predicted)) >= 0)
    out = {"ids": ints(flat(rows)), "offsets": ints([0, *numpy.cumsum(LENGTHS)]), "labels": ints(LABELS),
           "class_weights": single(CLASS_WEIGHTS), "smoothing": single([SMOOTHING]), "masked.ids": ints(flat(inputs)),
           "masked.rows": ints(where), "masked.labels": ints(numpy.array(flat(predicted))[where])}
    out |= {f"weights.{name}": single(value) for name, value in weights.items()}
    for task, kind, loss_of, data in (
        ("classes", RobertaForSequenceClassification, classes_loss, (rows, torch.tensor(LABELS))),
        ("masked", RobertaForMaskedLM, masked_loss, (inputs, predicted)),
    ):
        model = load(kind, weights)
        loss, hits, logits = loss_of(model, *data)
        loss.backward()
        out |= {f"{task}.means": single([loss.item(), hits.double().mean().item()]), f"{task}.logits": single(logits)}
        out |= named(f"{task}.grad.", model, lambda p: p.grad)
        for size, rate in RATES.items():
            model = load(kind, weights)
            losses, norms = steps(model, loss_of, data, rate)
            prefix = f"{task}.{size}"
            out |= {f"{prefix}.losses": single(losses), f"{prefix}.norms": single(norms),
                    f"{prefix}.rates": single([rate * (TOTAL - k) / TOTAL for k in range(STEPS)])}
            out |= named(f"{prefix}.after.", model, lambda p: p)
            print(prefix, "hits", int(hits.sum()), "losses", losses, "norms", norms)
    save_file(out, pathlib.Path(__file__).parent / "golden" / "bert.safetensors")
    padded(rows, inputs, predicted, weights)


if __name__ == "__main__":
    main()
