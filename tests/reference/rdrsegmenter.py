"""RDRsegmenter in Java, as VnCoreNLP ships it: for make_segmenter.py and check_segmenter.py.

Needs a Java runtime, the packages jpype1 and python_vncorenlp (whose data/vncorenlp.jar has the classes), and differs from
the published program in two things: it knows one more place, and it cuts a URL again that it has found.
"""
import importlib.util
import os

import jpype

MODES = "line", "sentences", "tokenized", "tokens"


def start():
    package = os.path.dirname(importlib.util.find_spec("python_vncorenlp").origin)
    jpype.startJVM("-Xss512m", classpath=[os.path.join(package, "data", "vncorenlp.jar")], convertStrings=True)


class Segmenter:
    def __init__(self, folder):
        package = jpype.JPackage("vn").corenlp
        self.tokenizer = package.tokenizer.Tokenizer
        vocabulary = package.wordsegmenter.Vocabulary(f"{folder}/VnVocab")
        self.segmenter = package.wordsegmenter.WordSegmenter(f"{folder}/Model.RDR", vocabulary)

    def segment(self, text):
        # The program trims what is up to U+0020, and gives an empty text back as a line end.
        text = text.strip("".join(map(chr, range(33))))
        return self.segmenter.segmentTokenizedString(text) if text else ""

    def run(self, mode, line):
        """Returns what `train_bert segment --mode MODE` gives for a line, without its last line end."""
        if mode == "tokenized":
            return self.segment(line)
        tokens = self.tokenizer.tokenize(line)
        if mode == "tokens":
            return " ".join(tokens)
        if mode == "line":
            return self.segment(" ".join(tokens))
        return "\n".join(self.segment(sentence) for sentence in self.tokenizer.joinSentences(tokens))
