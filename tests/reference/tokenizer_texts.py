"""Texts that tokenizers of other makers are likely to split in another way, and what the scripts beside this one share."""
import json
import pathlib
import subprocess
import tempfile

GOLDEN = pathlib.Path(__file__).parent / "golden" / "tokenizers.json"

NASTY = [
    "", " ", "  ", "\n", "\r\n", " \n", "\n ", "\t", "a", " a", "a ", "  a", "a  ", "a  b", "a   b", "a\tb", "\t\ta", "a\n\nb", "a \n b",
    "a\r\nb\r\n", "a\r\n\r\n  b", "x \r\n \r\n y", "trailing spaces   ", "   leading", "\n\n\n", " \t\n\r\v\f ", "a\x1cb\x1d\x1e\x1fc",
    "it's we're I've I'm you'll he'd can't", "IT'S WE'RE I'VE I'M YOU'LL HE'D CAN'T", "it'S we'Re I'vE you'lL", "'s 't 're", "''s", "'", "'''",
    "o'clock 'tis rock'n'roll d'accord l'eau", "it\u2019s we\u2019re", "a'\u017f a'\u017fx", "x'ss y'llama z'veto w'read",
    "1834", "12 345 6789", "3.14159", "1,000,000.00", "a1b2c3", "1a 2b", "10th 1st 22nd", "$5.00 \u00a34 10\u2030", "\u00bd \u00b2 x\u00b3 \u2167 \u2460",
    "\u0661\u0662\u0663", "\u09e7\u09e8\u09e9", "\u0967\u0968", "\u1369\u136a\u1372", "\uff11\uff12\uff13", "\U0001d7d8\U0001d7d9",
    "caf\u00e9", "cafe\u0301", "\u00c5ngstr\u00f6m A\u030angstro\u0308m", "\u1e69 s\u0323\u0307 s\u0307\u0323", "na\u00efve fa\u00e7ade co\u00f6perate \u00c6sop \u0153uvre stra\u00dfe",
    "\u0301a", "a\u0301\u0301\u0301", "\u0915\u093f \u0915\u094d\u0937 \u0939\u093f\u0928\u094d\u0926\u0940", "\u0e01\u0e33\u0e25\u0e31\u0e07", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0627\u0644\u0633\u064e\u0651\u0644\u0627\u0645",
    "\u4e2d\u6587\u3002\u6f22\u5b57\uff0c\u6d4b\u8bd5", "\u3042\u30a2\u30ab\u3099\u30ac \uff76\uff9e", "\u12db\u122c \u1320\u12cb\u1275 \u12c8\u12f0 \u1308\u1260\u12eb \u1204\u12f5\u1295\u1362 \u1361\u1363",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0439 \u0438\u0306", "\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u1f04\u03bd\u03b8\u03c1\u03c9\u03c0\u03bf\u03c2", "T\u00fcrk\u00e7e \u0130\u0131",
    "a\u00a0b", "a\u2003b", "a\u2009b\u200ac", "a\u202fb", "a\u3000b", "a\u1680b", "a\u2028b\u2029c", "a\u0085b", "a\u200bb", "a\ufeffb", "a\u00adb", "a\u200db", "a\u180eb", "\u00a0\u00a0a", " \u00a0 a", "a \u3000",
    "\u00ab quoted \u00bb \u201cso\u201d \u2018s\u2019 \u201elow\u201c", "em\u2014dash en\u2013dash hy\u2010phen", "\u2026 ... ?! ?!?!", "!!! --- *** ___", "a.b,c;d:e", "(a)[b]{c}<d>", "a/b\\c|d", "^~`@#$%&*+=", "a_b__c", "\u00a7 \u00b6 \u2020 \u2021 \u2022",
    "\u2212 \u00d7 \u00f7 \u221e \u2264 \u20ac \u00a2 \u00a9 \u00ae \u2122 \u00b0", "\u166d \u2e4f \u2e5d \U00010b3f \U000111c9", "\u00b7 \u037e \u0387 \u30fb", "\u3001\u3002\u300c\u300d\uff01\uff1f",
    "\U0001f600", "a\U0001f600b", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1ec\U0001f1e7", "\u2764\ufe0f \U0001f44d\U0001f3fd", "\U0010ffff \ue000",
    "\ufb01 \ufb00 \u212b \u2126 \u00b5", "\ufffd", "\u0000".replace("\u0000", "\u0001\u0002\u007f"), "http://example.org/a?b=c&d=%20e#f", "name.surname@example.com", "snake_case camelCase HTTPServer2", "if (x == 3) { y += 1; }\n\treturn y;\n",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|", "<<|endoftext|>>", "<|ENDOFTEXT|>", "caf\u00e9<|endoftext|>\u0301a", "Ge1:1 In the beginning God created the heaven and the earth.",
    "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "the" * 50, "=" * 100, " " * 70 + "x", "\u00e9" * 70,
]


def merged(base, change):
    """Returns base with the changes of a variant."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return dict(base, **{key: merged(base.get(key), value) for key, value in change.items()})


def write_variants(folder):
    """Writes the tokenizers of the golden file; returns their paths."""
    golden, paths = json.loads(GOLDEN.read_text()), []
    for variant in golden["variants"]:
        paths.append(pathlib.Path(folder) / f"{variant['name']}.json")
        paths[-1].write_text(json.dumps(merged(golden[variant["base"]], variant["change"])))
    return [str(path) for path in paths]


def run(tool, command, tokenizer, texts):
    """Returns the output of tools/tokenize for texts."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(text.encode() + b"\0" for text in texts))
        file.flush()
        return subprocess.run([tool, command, tokenizer, file.name], check=True, stdout=subprocess.PIPE).stdout


def ours(tool, tokenizer, texts):
    """Returns the ids of each text."""
    return [[int(i) for i in line.split()] for line in run(tool, "ids", tokenizer, texts).decode().split("\n")[:-1]]


def theirs(tokenizer, texts):
    return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


def lines_of(path):
    return pathlib.Path(path).read_bytes().decode().split("\n")
