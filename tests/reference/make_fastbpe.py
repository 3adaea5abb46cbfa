#!/usr/bin/env python3
"""Writes golden/fastbpe.json for tests/data/test_fastbpe.c and test_fastbpe_train.c, with PhobertTokenizer of transformers.

Each entry has vocab.txt, bpe.codes, texts, their ids and what these decode to. The first entry is learned from `corpus`.
"""
import json
import tempfile

from fastbpe_files import GOLDEN, TEXTS, count_pieces, learn, random_files, reference, write

CORPUS = [
    "Bình_luận này hay quá , cảm_ơn bạn nhiều !", "bạn nói đúng rồi , mình cũng nghĩ vậy", "nói vậy mà cũng nói được à ???", "hay quá hay quá hay quá", "37 °C hôm_nay nóng quá trời",
    "chương_trình đào_tạo đại_học chính_quy của trường", "trường đại_học của mình ở Việt_Nam", "hahahaha haha hahaha \U0001f602\U0001f602", "xin chào bạn .", "chào bạn , mình là sinh_viên",
    "a\u00a0b a\tb\n  c\r\nabcabc <s> </s> <mask> <unk> </w> a@@ @@",
] * 2 + ["nghĩ ngợi nghiêng ngả", "aaaa aaa aa a", "<s> <s> <s>"]
MERGES = 120


def entry(vocab, codes, texts):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, vocab, codes)
        tokenizer = reference(folder)
        ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
        return {"vocab": vocab, "codes": codes, "texts": texts, "ids": ids, "decoded": [tokenizer.decode(i) for i in ids]}


def main():
    codes = learn(CORPUS, MERGES, 2)
    # A no-break space is lost, or the line does nothing.
    lines = codes + ["\u00a0° F</w> 2", "\u00a0 km</w> 2", "a \u00a0 2"]
    vocab = count_pieces(CORPUS, codes) + ["°F 2"]
    entries = [entry("".join(f"{line}\n" for line in vocab), "".join(f"{line}\n" for line in lines), TEXTS + CORPUS)]
    for seed in (1, 4, 9):
        files = random_files(seed)
        entries.append(entry(files[0], files[1], files[2][:60]))
    golden = {"corpus": CORPUS, "merges": MERGES, "learned": {"vocab": vocab[:-1], "codes": codes}, "entries": entries}
    GOLDEN.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).replace('"entries"', '\n"entries"').replace('{"vocab":"', '\n{"vocab":"') + "\n")


main()
