#!/usr/bin/env python3
"""Writes the facts that the Vietnamese word segmenter is compiled with, from tables of RDRsegmenter's lists:

    make_segment_lists.py FOLDER data/segment

FOLDER holds names.tsv, abbreviations.tsv, exceptions.tsv, normalizer.tsv, char_ranges.tsv and lowercase.tsv. Abbreviations
and exceptions keep their order, which decides what is found first.
"""
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


def hexadecimal(number):
    return "0x" + number.lstrip("0")


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


def write_classes(folder, target):
    classes = {}
    for name, first, last in rows(folder, "char_ranges.tsv"):
        classes.setdefault(name, []).append(f"{{{hexadecimal(first)}, {hexadecimal(last)}}}")
    lower = [f"{{{hexadecimal(a)}, {hexadecimal(b)}}}" for a, b in rows(folder, "lowercase.tsv")]
    with open(f"{target}/class_ranges.h", "w", encoding="utf-8") as out:
        print("""/* Ranges of code points, first and last, of the classes of Unicode 13.0 as Java 17 knows them, up to U+FFFF but for
 * `letter` and `currency`; and the lower case of letters that occur in the segmenter's words. Written by
 * tests/reference/make_segment_lists.py. */
#ifndef DATA_SEGMENT_CLASS_RANGES_H
#define DATA_SEGMENT_CLASS_RANGES_H

#include <stdint.h>

// clang-format off""", file=out)
        for name, entries in classes.items():
            print(f"static const uint32_t {name}[][2] = {{\n{wrapped(entries)}}};", file=out)
        print(f"static const uint16_t lower_case[][2] = {{\n{wrapped(lower)}}};\n// clang-format on\n\n#endif", file=out)


write_lists(sys.argv[1], sys.argv[2])
write_classes(sys.argv[1], sys.argv[2])
