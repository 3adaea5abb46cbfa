#!/usr/bin/env python3
"""Checks that an export of train_bert loads in transformers, without a tensor too many or too few, and predicts the same.

    python3 tests/reference/check_bert_export.py FOLDER [PREDICTIONS [TOLERANCE]]

FOLDER holds what `train_bert export` wrote. PREDICTIONS is what `train_bert predict --format jsonl` of that folder wrote, with
texts: each is tokenized by AutoTokenizer, after the normalization that config.json tells, and computed in float64.
TOLERANCE is the largest allowed difference of a log probability, by default 1e-5.
"""
import json
import re
import sys
import unicodedata

import torch
import transformers

SPACE = re.compile(r"\s+")


def open_model(folder, config):
    kind = config["architectures"][0]
    auto = transformers.AutoModelForSequenceClassification if "Sequence" in kind else transformers.AutoModelForMaskedLM
    model, info = auto.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    assert type(model).__name__ == kind
    problems = {name: list(value) for name, value in info.items() if value}
    assert not problems, problems
    if "Masked" in kind:
        words = model.roberta.embeddings.word_embeddings.weight
        assert model.lm_head.decoder.weight.data_ptr() == words.data_ptr(), "the decoder is not tied"
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{kind}: {parameters} parameters, every tensor there and none too many")
    return model.eval()


def open_tokenizer(folder, config):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == config["vocab_size"], (len(tokenizer), config["vocab_size"])
    for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(tokenizer, role) == config[role], role
    assert tokenizer.model_max_length == config["max_position_embeddings"] - 2
    print(f"{type(tokenizer).__name__} of {len(tokenizer)} tokens: {tokenizer.special_tokens_map}")
    return tokenizer


def normal(text, rules):
    if rules["compat"]:
        return text
    text = unicodedata.normalize("NFC", text) if rules["normalize"] == "nfc" else text
    return SPACE.sub(" ", text).strip()


def compare(model, tokenizer, config, rows):
    rules, worst = config["train_bert"]["options"], 0.0
    names = [config["id2label"][str(c)] for c in range(len(config["id2label"]))]
    for row in rows:
        ids = tokenizer(normal(row["text"], rules), truncation=True, max_length=rules["max-len"], return_tensors="pt")
        with torch.no_grad():
            theirs = torch.log_softmax(model(input_ids=ids["input_ids"]).logits[0], 0)
        ours = torch.tensor([row[f"p_{name}"] for name in names], dtype=torch.float64).log()
        worst = max(worst, (theirs - ours).abs().max().item())
    return worst


def main():
    folder = sys.argv[1]
    config = json.load(open(f"{folder}/config.json", encoding="utf-8"))
    model, tokenizer = open_model(folder, config), open_tokenizer(folder, config)
    if len(sys.argv) > 2:
        rows = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
        tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-5
        worst = compare(model, tokenizer, config, rows)
        print(f"{len(rows)} texts: log probabilities differ by at most {worst:.2e}")
        assert rows and worst <= tolerance, tolerance


main()
