"""Writes small files of one encoder as Hugging Face's transformers write and wrote them, and what it predicts in float64.

    python3 tests/reference/make_bert_files.py tests/reference/golden

bert_hf/: a RobertaForSequenceClassification of three named classes that transformers saved, with the files of a
PhobertTokenizer. bert_old/pytorch_model.bin: the same encoder as a RobertaModel of the first versions: a zip of torch, names
without roberta., gamma and beta of norms, position_ids, a pooler, and no config.json. bert_masked/: the same encoder as
RobertaForMaskedLM in pytorch_model.bin, with the tied decoder written out. bert_predictions.json: texts, their ids, and the
logits of bert_hf's classes.
"""
import json
import os
import sys

import torch
import transformers

WIDTH, LAYERS, HEADS, WIDE, POSITIONS = 16, 2, 2, 32, 14
CODES = ["x i 9", "xi n</w> 8", "c h 7", "ch à 6", "chà o</w> 5", "b ạ 4", "bạ n</w> 3", "t ô 2", "tô i</w> 1"]
PIECES = "xin chào bạn tôi x@@ i@@ n c@@ h@@ à@@ o b@@ ạ@@ t@@ ô@@ i a ! xi@@ chà@@".split()
TEXTS = ["xin chào bạn", "tôi", "bạn tôi xin !", "zzz a", "", "xin chào bạn xin chào bạn xin chào bạn xin chào bạn xin tôi",
         "a! chàxin tôbạn", "tôi tôi chào"]


def write_tokenizer(folder):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/bpe.codes", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in CODES)
    with open(f"{folder}/vocab.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{piece} {100 - i}\n" for i, piece in enumerate(PIECES))


def random_weights(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if "LayerNorm.weight" in name else 0.0))
    return model.eval()


def old_names(state):
    for end, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {name.replace(end, old): tensor for name, tensor in state.items()}
    return state


def main(folder):
    torch.manual_seed(16)
    config = transformers.RobertaConfig(
        vocab_size=len(PIECES) + 5, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=WIDE, max_position_embeddings=POSITIONS, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
        bos_token_id=0, eos_token_id=2, num_labels=3, id2label={0: "clean", 1: "rude", 2: "hate, \"loud\""},
    )
    model = random_weights(transformers.RobertaForSequenceClassification(config))
    model.save_pretrained(f"{folder}/bert_hf")
    write_tokenizer(f"{folder}/bert_hf")

    bare = transformers.RobertaModel(config)
    bare.load_state_dict(model.roberta.state_dict(), strict=False)
    state = old_names(dict(bare.state_dict()))
    state["embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    os.makedirs(f"{folder}/bert_old", exist_ok=True)
    torch.save(state, f"{folder}/bert_old/pytorch_model.bin")

    masked = random_weights(transformers.RobertaForMaskedLM(config))
    masked.roberta.load_state_dict(model.roberta.state_dict())
    os.makedirs(f"{folder}/bert_masked", exist_ok=True)
    torch.save(masked.state_dict(), f"{folder}/bert_masked/pytorch_model.bin")
    masked.config.save_pretrained(f"{folder}/bert_masked")

    tokenizer = transformers.PhobertTokenizer(f"{folder}/bert_hf/vocab.txt", f"{folder}/bert_hf/bpe.codes")
    assert len(tokenizer) == config.vocab_size
    rows = []
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=POSITIONS - 2)["input_ids"]
        with torch.no_grad():
            logits = model.double()(torch.tensor([ids])).logits[0]
        rows.append({"text": text, "ids": ids, "logits": logits.tolist()})
    with open(f"{folder}/bert_predictions.json", "w", encoding="utf-8") as file:
        json.dump(rows, file, ensure_ascii=False, indent=1)
        file.write("\n")


main(sys.argv[1])
