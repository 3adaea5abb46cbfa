"""Files of fastBPE for the scripts beside this one: made at random, and learned by the definition, slowly and plainly."""
import collections
import os
import pathlib
import random
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import PhobertTokenizer

GOLDEN = pathlib.Path(__file__).parent / "golden" / "fastbpe.json"
END, CONTINUES, SPECIALS = "</w>", "@@", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]

TEXTS = [
    "", " ", "a", "\n", "a\n", "\na", "a b\nc\n\nd\r\ne\n", "xin chào\nbạn", "xin chào bạn .", "°C 37°C °F 37°F \u00a0km 5\u00a0km", "a\x1cb\x1db\x1eb\x1fb\x85b\u2003c\u200bd",
    "<s>", "a<s>b</s>\n<mask><unk><pad>", "< s>", "<<s>>", "</s></w>", "</w>", "a</w>", "ng</w> ng</w>i", "h</w></w>", "@@", "a@@ b", "a@@", "@@@@ @ @@@", "a@@b",
    "h@@", "ĐẶC BIỆT", "Đa\u0323c", "việt_nam Việt_Nam VIỆT_NAM", "___", "_", "chương_trình_đào_tạo_đại_học_chính_quy", "\U0001f602\U0001f602 haha\U0001f602",
    "aaaaaaaaaaaaaaaaaaaa hahahahahahaha", "ng" * 200, "ố" * 500, "abcabcabd abcabca bcabc",
]


def write(folder, vocab, codes):
    pathlib.Path(folder, "vocab.txt").write_text(vocab)
    pathlib.Path(folder, "bpe.codes").write_text(codes)


def reference(folder):
    return PhobertTokenizer(f"{folder}/vocab.txt", f"{folder}/bpe.codes")


def random_files(seed):
    """Returns vocab.txt, bpe.codes and texts. Several merges make the same symbol, in any order, so that what a merge makes
    may allow one of a smaller rank."""
    rng = random.Random(seed)
    symbols = [c + e for c in "abcg<>/w@" for e in ("", END)]
    lines, made = [], []
    for _ in range(rng.randint(20, 300)):
        left, right = rng.choice([s for s in symbols if not s.endswith(END) or rng.random() < 0.1]), rng.choice(symbols)
        if len(left + right) < 14:
            lines.append(f"{left} {right} 1")
            made.append(left + right)
            symbols.append(left + right)
    pieces = {s[: -len(END)] if s.endswith(END) else s + CONTINUES for s in made + [c + e for c in "abcg<>/w" for e in ("", END)]}
    texts = ["".join(rng.choice("abcg<>/w@ ") for _ in range(rng.randint(1, 60))) for _ in range(400)]
    return "".join(f"{p} 1\n" for p in sorted(pieces - set(SPECIALS) - {CONTINUES})), "".join(line + "\n" for line in lines), texts


def merged(word, left, right):
    out = []
    for symbol in word:
        if out and out[-1] == left and symbol == right:
            out[-1] += symbol
        else:
            out.append(symbol)
    return out


def learn(texts, n, least):
    """Returns the lines of bpe.codes: the most frequent pair of symbols again and again, of several the first by the numbers of
    their symbols, which are those of the words, in order, and then what merges make. Special tokens are not made."""
    counts = collections.Counter(word for text in texts for word in text.split())
    words = [(list(word[:-1]) + [word[-1] + END], count) for word, count in counts.items()]
    numbers = {symbol: i for i, symbol in enumerate(sorted({symbol for word, _ in words for symbol in word}))}
    codes = {}
    while len(codes) < n:
        pairs = collections.Counter()
        for word, count in words:
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        pairs = {pair: count for pair, count in pairs.items() if "".join(pair) not in [special + END for special in SPECIALS]}
        if not pairs:
            break
        (left, right), count = min(pairs.items(), key=lambda item: (-item[1], numbers[item[0][0]], numbers[item[0][1]]))
        if count < least:
            break
        numbers.setdefault(left + right, len(numbers))
        codes.setdefault((left, right), count)
        words = [(merged(word, left, right), count) for word, count in words]
    return [f"{left} {right} {count}" for (left, right), count in codes.items()]


def count_pieces(texts, codes):
    """Returns the lines of vocab.txt: the pieces of the texts, and others that their characters may become."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "a 1\n", "".join(line + "\n" for line in codes))
        tokenizer = reference(folder)
        counts = collections.Counter(piece for text in texts for word in text.split() for piece in tokenizer.bpe(word).split(" "))
    for line in codes:
        made = "".join(line.split(" ")[:2])
        counts[made[: -len(END)] if made.endswith(END) else made + CONTINUES] += 0
    for word in {word for text in texts for word in text.split()}:
        counts.update({piece: 0 for c in word for piece in (c, c + CONTINUES)})
    return [f"{piece} {count}" for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))]
