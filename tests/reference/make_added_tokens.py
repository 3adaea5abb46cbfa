"""Writes texts and their ids by a PhobertTokenizer of transformers with added_tokens.json.

    python3 tests/reference/make_added_tokens.py tests/reference/golden

added_tokens.json: the files vocab.txt, bpe.codes and added_tokens.json, texts, and their ids without <s> and </s>.
"""
import json
import os
import sys
import tempfile

import transformers

PIECES = "xin chào bạn tôi x@@ i@@ n c@@ h@@ à@@ o b@@ ạ@@ t@@ ô@@ i a ! xi@@ chà@@".split()
CODES = ["x i 9", "xi n</w> 8", "c h 7", "ch à 6", "chà o</w> 5", "b ạ 4", "bạ n</w> 3", "t ô 2", "tô i</w> 1"]
# A token among the pieces, the special token behind them, tokens of letters and of signs, one that begins another, one with
# a blank and one of a word in the middle of another.
ADDED = {"<mask>": 24, "tôi": 7, "<emoji>": 25, ":))": 26, ":)": 27, "xin chào": 28, "hà": 29}
TEXTS = [
    "xin chào bạn", "<emoji>", "tôi <emoji> bạn", "bạn:)) tôi:)", ":)))", ":) ) :))", "xin  chào", "chào xin chàobạn", "tôitôi",
    "xitôin", "chà nhà", "", "  :))  ", "a!<emoji>!a", "<emo ji>", "xin chào xin chào",
]


def main(folder):
    files = {
        "vocab.txt": "".join(f"{piece} {100 - i}\n" for i, piece in enumerate(PIECES)),
        "bpe.codes": "".join(line + "\n" for line in CODES),
        "added_tokens.json": json.dumps(ADDED, ensure_ascii=False),
    }
    with tempfile.TemporaryDirectory() as here:
        for name, text in files.items():
            with open(os.path.join(here, name), "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(here, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": "roberta"}, file)
        tokenizer = transformers.PhobertTokenizer.from_pretrained(here)
    assert len(tokenizer) == 30 and tokenizer.convert_tokens_to_ids(":))") == 26
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    with open(f"{folder}/added_tokens.json", "w", encoding="utf-8") as file:
        json.dump({"files": files, "texts": TEXTS, "ids": ids}, file, ensure_ascii=False, indent=1)
        file.write("\n")


main(sys.argv[1])
