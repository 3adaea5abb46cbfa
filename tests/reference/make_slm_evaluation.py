"""Evaluates texts and questions with golden/slm_gpt2 in float64, window by window, and writes them with their losses.

    python3 tests/reference/make_slm_evaluation.py tests/reference/golden

slm_evaluation.json: texts, each with its loss summed over all tokens: the documents end to end in contexts of the model's 12
tokens, in windows that move on by 3, and with the documents (blocks between blank lines) apart; and questions with the summed
loss of each ending.
"""
import json
import sys

import slm_gpt2
import tokenizers
import torch
from safetensors.torch import load_file

CONTEXT, HEADS = 12, 2
TEXTS = {
    "two.txt": "the dean denied the notes.\n\nhe noted it then, and then that.\n",
    "one.txt": "then he denied that the dean noted it. and the notes then noted that he denied the dean.",
}
QUESTIONS = [
    {"ctx": "the dean denied", "endings": ["the notes.", "it", "and then"], "label": 0},
    {"context": "he noted it", "endings": ["then", "that", "the dean.", "the"], "label": "3"},
    {"ctx": "and then the dean denied that the notes denied it, and", "endings": [" he noted it", "that"], "label": 1, "ind": 7},
]


def main():
    golden = sys.argv[1]
    weights = load_file(f"{golden}/slm_gpt2/model.safetensors")
    tokenizer = tokenizers.Tokenizer.from_file(f"{golden}/slm_gpt2/tokenizer.json")
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids

    def loss(ids, scored):
        """The summed loss of the last `scored` ids."""
        ids = torch.tensor(ids)
        assert len(ids) - 1 <= CONTEXT
        logits = slm_gpt2.logits(weights, ids[:-1], HEADS, "gelu")
        losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
        return float(losses[len(losses) - scored :].sum())

    def stream_loss(ids, stride):
        total, begin, done = 0.0, 0, 0
        while done < len(ids) - 1:
            end = min(len(ids) - 1, begin + CONTEXT)
            total += loss(ids[begin : end + 1], end - done)
            begin, done = begin + stride, end
        return total

    result = {"texts": [], "questions": []}
    for name, text in TEXTS.items():
        ids = encode(text)
        parts = [part.strip("\n") for part in text.split("\n\n")]
        apart = [encode(part) for part in parts]
        result["texts"].append(
            {
                "name": name,
                "text": text,
                "tokens": len(ids) - 1,
                "bytes": len(text.encode()),
                "loss": stream_loss(ids, CONTEXT),
                "stride_3": stream_loss(ids, 3),
                "documents": len(parts),
                "apart_tokens": sum(len(part) - 1 for part in apart),
                "apart_bytes": sum(len(part.encode()) for part in parts),
                "apart": sum(stream_loss(part, CONTEXT) for part in apart),
            }
        )
    for question in QUESTIONS:
        losses = []
        for ending in question["endings"]:
            scored = encode(ending if ending.startswith(" ") else " " + ending)
            ids = encode(question.get("ctx", question.get("context"))) + scored
            losses.append(loss(ids[-CONTEXT - 1 :], len(scored)))
        tokens = [len(encode(" " + ending.strip())) for ending in question["endings"]]
        result["questions"].append({"question": question, "losses": losses, "tokens": tokens})
    with open(f"{golden}/slm_evaluation.json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


main()
