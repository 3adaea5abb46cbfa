#!/usr/bin/env python3
"""Writes data/text/character_ranges.h: the classes of characters as the package `tokenizers` knows them, found by asking it.

    make_characters.py > data/text/character_ranges.h

Each pre-tokenizer or normaliser of the package brings tables of its own version of Unicode. A class is what its component
does with every code point: the regular expression of ByteLevel (letters, numbers, white space), Punctuation, StripAccents.
"""
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
punctuation = pre_tokenizers.Punctuation("isolated")
white_space = pre_tokenizers.WhitespaceSplit()
strip = normalizers.StripAccents()


def words(splitter, text):
    return len(splitter.pre_tokenize_str(text))


def is_letter(c):
    return words(byte_level, "a" + c) == 1


def is_number(c):
    return words(byte_level, "1" + c) == 1


CLASSES = {
    "letters": is_letter,
    "numbers": is_number,
    "spaces": lambda c: words(white_space, "a" + c + "a") == 2,
    "punctuation": lambda c: words(punctuation, "a" + c + "a") == 3,
    "marks": lambda c: strip.normalize_str("a" + c + "a") == "aa",
}


def ranges(is_member):
    found = []
    for c in filter(is_member, CHARACTERS):
        if found and found[-1][1] == ord(c) - 1:
            found[-1][1] = ord(c)
        else:
            found.append([ord(c), ord(c)])
    return found


print(f"""/* Ranges of code points, first and last, of each class of characters. Written by tests/reference/make_characters.py
 * from the package tokenizers, version {tokenizers.__version__}. */
#pragma once

#include <stdint.h>

// clang-format off""")
for name, is_member in CLASSES.items():
    print(f"static const uint32_t {name}[][2] = {{")
    row = ""
    for first, last in ranges(is_member):
        entry = f"{{0x{first:X}, 0x{last:X}}}, "
        if len(row) + len(entry) > 116:
            print("    " + row.rstrip())
            row = ""
        row += entry
    print("    " + row.rstrip(", ") + "};")
print("// clang-format on")
# The white space of the regular expression is that of the splitter; a character of no class is "other" to the former.
other = [c for c in CHARACTERS if words(byte_level, "!" + c) == 2 and not is_letter(c) and not is_number(c)]
assert other == [c for c in CHARACTERS if CLASSES["spaces"](c)], "white space differs between two components"
print(f"tokenizers {tokenizers.__version__}", file=sys.stderr)
