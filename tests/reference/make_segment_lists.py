#!/usr/bin/env python3
"""Writes the facts that the Vietnamese word segmenter is compiled with, from tables of RDRsegmenter's lists:

    make_segment_lists.py FOLDER data/segment

FOLDER holds names.tsv, abbreviations.tsv, exceptions.tsv, normalizer.tsv, char_ranges.tsv and lowercase.tsv. Abbreviations
and exceptions keep their order, which decides what is found first. Run it in the root of the repository, whose
data/text/character_ranges.h has the letters.
"""
import re
import sys

SOURCE = """RDRsegmenter (https://github.com/datquocnguyen/RDRsegmenter, copyright 2017-2019 Dat Quoc Nguyen,
 * Apache License 2.0)"""
WIDTH = 116


def rows(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def wrapped(entries):
    lines = [""]
    for entry in entries:
        if len(lines[-1]) + len(entry) + 2 > WIDTH:
            lines.append("")
        lines[-1] += entry + ", "
    return "\n".join("    " + line.rstrip() for line in lines).rstrip(",")


def quoted(text):
    return '"' + text.replace("\ufeff", "\\357\\273\\277") + '"'


def write_lists(folder, target):
    names = {}
    for name, entry in rows(folder, "names.tsv"):
        names.setdefault(name, []).append(entry)
    lists = [("places", names["VN_LOCATIONS"] + names["COUNTRY_L_NAME"]),
             ("alone", sorted(set(names["VN_FIRST_SENT_WORDS"] + names["COUNTRY_S_NAME"] + names["WORLD_COMPANY"]))),
             ("middle_names", names["VN_MIDDLE_NAMES"]), ("family_names", names["VN_FAMILY_NAMES"]),
             ("abbreviations", [entry for _, entry in rows(folder, "abbreviations.tsv")]),
             ("exceptions", [entry for _, entry in rows(folder, "exceptions.tsv")])]
    with open(f"{target}/lists.c", "w", encoding="utf-8") as out:
        print(f"""/* The word lists of {SOURCE}. Written by tests/reference/make_segment_lists.py. */
#include "data/segment/lists.h"

// clang-format off""", file=out)
        for name, entries in lists:
            print(f"static const char *const {name}[] = {{\n{wrapped(map(quoted, entries))}}};", file=out)
            print(f"const SegmentList segment_{name} = {{{name}, {len(entries)}}};\n", file=out)
        pairs = [f"{{{quoted(a)}, {quoted(b)}}}" for a, b in rows(folder, "normalizer.tsv")]
        print(f"const char *const segment_tones[SEGMENT_TONES][2] = {{\n{wrapped(pairs)}}};\n// clang-format on", file=out)


def code_points(ranges):
    return {c for first, last in ranges for c in range(first, last + 1)}


def ranges_of(characters, step=1):
    """Returns [first, last] of the runs of characters that lie `step` apart."""
    found = []
    for c in sorted(characters):
        if found and found[-1][1] == c - step:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def alternating(characters):
    """Returns the characters of which only every second is in the class, in runs of two or more."""
    alone = {first for first, last in ranges_of(characters) if first == last}
    return code_points([run for run in ranges_of(alone, 2) if run[0] < run[1]]) & alone


def newest_letters():
    with open("data/text/character_ranges.h", encoding="utf-8") as file:
        text = file.read().split("letters[][2] = {")[1].split("};")[0]
    return code_points([[int(c, 16) for c in pair] for pair in re.findall(r"{0x(\w+), 0x(\w+)}", text)])


def lower_rows(pairs, upper):
    """Returns rows of first, last and the distance of the lower case that all upper case between them has."""
    found = []
    for a, b in pairs:
        if found and found[-1][2] == b - a and not any(c in upper for c in range(found[-1][1] + 1, a)):
            found[-1][1] = a
        else:
            found.append([a, a, b - a])
    return found


def write_classes(folder, target):
    known = {}
    for name, first, last in rows(folder, "char_ranges.tsv"):
        known.setdefault(name, []).append([int(first, 16), int(last, 16)])
    known = {name: code_points(ranges) for name, ranges in known.items()}
    letters = newest_letters()
    assert known["letter"] <= letters, "a letter of Unicode 13.0 is none in character_ranges.h"
    classes = {"later_letters": ranges_of(letters - known["letter"])}
    for name in "digit", "upper", "lower":
        second = alternating(known[name]) if name != "digit" else set()
        classes[name] = ranges_of(known[name] - second)
        if second:
            classes["alternating_" + name] = ranges_of(second, 2)
    assert {c for c in known["letter"] if c <= 0xFFFF} <= known["alphabetic"]
    classes["other_alphabetic"] = ranges_of(known["alphabetic"] - known["letter"])
    classes["currency"] = ranges_of(known["currency"])
    lower = lower_rows([[int(c, 16) for c in row] for row in rows(folder, "lowercase.tsv")], known["upper"])
    with open(f"{target}/class_ranges.h", "w", encoding="utf-8") as out:
        print("""/* Ranges of code points, first and last, of the classes of Unicode 13.0 as Java 17 knows them, up to U+FFFF but for
 * `currency` and `later_letters`, the letters of data/text/character_ranges.h that Unicode 13.0 has not. Every second
 * character of an alternating range is in the class. `other_alphabetic` are no letters. `lower_case`: how far behind
 * the upper case of a range its lower case lies, of letters that occur in the segmenter's words. Written by
 * tests/reference/make_segment_lists.py. */
#pragma once

#include <stdint.h>

// clang-format off""", file=out)
        for name, ranges in classes.items():
            entries = [f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges]
            print(f"static const uint32_t {name}[][2] = {{\n{wrapped(entries)}}};", file=out)
        entries = [f"{{0x{first:X}, 0x{last:X}, {distance}}}" for first, last, distance in lower]
        print("static const struct {\n    uint32_t first, last;\n    int distance;", file=out)
        print(f"}} lower_case[] = {{\n{wrapped(entries)}}};\n// clang-format on", file=out)


write_lists(sys.argv[1], sys.argv[2])
write_classes(sys.argv[1], sys.argv[2])
