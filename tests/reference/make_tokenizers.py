#!/usr/bin/env python3
"""Writes the tokenizers and golden ids of tests/data/test_bpe.c with the package `tokenizers` (and needs no other).

    make_tokenizers.py          writes golden/tokenizers.json

Two small tokenizers are trained on the texts, twice, and a sentence, nine times, one of each kind. The file has both, and variants of them: what each changes
in its base (keys of objects are replaced one by one, all else as a whole) and its ids of the same texts, or of its own.
"""
import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizer_texts import GOLDEN, NASTY, merged, theirs

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SENTENCE = "In the beginning was the word, and the word was with them; the thing's end they'll see in 1834 or 1835."
TEXTS = NASTY * 2 + [SENTENCE] * 9


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def character_level():
    """As the reference of the text GPT: characters, a prefix inside words, no unknown piece, no decoder."""
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")])
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=["<|endoftext|>", "<|unk|>"], limit_alphabet=120,
                                  continuing_subword_prefix="##", show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


BYTES_ONLY = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern, behavior="Isolated", invert=False):
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [step, BYTES_ONLY]}}


def added(base):
    more = [("  ", False, True), ("   ", False, True), ("\u00e9\u00e9", False, False), ("<|x|>", True, False)]
    entries = [dict(base["added_tokens"][0], id=420 + i, content=text, special=special, normalized=normalized)
               for i, (text, special, normalized) in enumerate(more)]
    return {"added_tokens": base["added_tokens"] + entries}


# Of the variant whose added tokens swallow white space or stand alone.
STRIPPED = ["a <m> b", "a  \t\n<m>\u00a0 b", "<m>", " <m> ", "<m><m>  <m>", "a <r> b", "a<r>  \u2003\n b", "<r> <m> <r>", "<r>  <m>", "a <l>  <r> b",
            "a <s> b", "a<s> b", "a <s>b", "<s>", "(<s>)", "\u00e9<s>", "<s>_", "1<s>", "\u093f<s>", "<s>\u200d", "<s>\U0001f600", "\u24b6<s>", "<s><s>",
            "<m> <s>a <m>", "  sp  <r>   <m>  x", "<r>  <b>  <r>", "word", "a word here", "swords word", "word,word word1 word"]


def stripped(base):
    more = [("<m>", True, False, dict(lstrip=True)), ("<r>", True, False, dict(rstrip=True)), ("<l>", True, True, dict(lstrip=True)),
            ("<s>", True, False, dict(single_word=True)), ("<b>", True, False, dict(lstrip=True, rstrip=True)),
            ("word", False, False, dict(single_word=True, lstrip=True)), ("sp", False, True, dict(single_word=True, rstrip=True))]
    entries = [dict(base["added_tokens"][0], id=420 + i, content=text, special=special, normalized=normalized, **how)
               for i, (text, special, normalized, how) in enumerate(more)]
    return {"added_tokens": base["added_tokens"] + entries}


def variants(bases):
    """Yields the name of each variant, its base and what it changes there."""
    some = {"ignore_merges": True, "merges": bases["byte_level"]["model"]["merges"][:60]}
    yield "byte_level", "byte_level", {}
    yield "prefix_space", "byte_level", {"pre_tokenizer": {"add_prefix_space": True}}
    yield "ignore_merges", "byte_level", {"model": some}
    yield "split_gpt2", "byte_level", split(GPT2)
    yield "split_cl100k", "byte_level", split(CL100K % r"\p{N}{1,3}", "Removed", True)
    yield "split_one_digit", "byte_level", dict(split(CL100K % r"\p{N}"), normalizer={"type": "NFC"})
    yield "whole", "byte_level", {"pre_tokenizer": {"use_regex": False}}
    yield "added", "byte_level", added(bases["byte_level"])
    yield "stripped", "byte_level", stripped(bases["byte_level"])
    yield "character_level", "character_level", {}
    yield "unknown", "character_level", {"model": {"unk_token": "<|unk|>"}}
    yield "fused_unknown", "character_level", {"model": {"unk_token": "<|unk|>", "fuse_unk": True}}
    yield "bert_split", "character_level", {"pre_tokenizer": {"type": "BertPreTokenizer"}, "normalizer": {"type": "NFD"}}
    yield "spaces_split", "character_level", {"pre_tokenizer": {"type": "WhitespaceSplit"}, "normalizer": None}


def main():
    bases = {"byte_level": json.loads(byte_level().to_str()), "character_level": json.loads(character_level().to_str())}
    lines = ['"texts": ' + json.dumps(NASTY), '"sentence": ' + json.dumps(SENTENCE)]
    lines += [f'"{name}": {json.dumps(base, separators=(",", ":"))}' for name, base in bases.items()]
    rows = []
    for name, base, change in variants(bases):
        tokenizer = Tokenizer.from_str(json.dumps(merged(bases[base], change)))
        own = {"texts": STRIPPED} if name == "stripped" else {}
        ids = theirs(tokenizer, own.get("texts", NASTY))
        rows.append(json.dumps({"name": name, "base": base, "change": change, **own, "ids": ids}, separators=(",", ":")))
    lines.append('"variants": [\n' + ",\n".join(rows) + "\n]")
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
