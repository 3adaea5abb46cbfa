#!/usr/bin/env python3
"""Writes tests/reference/golden/segmenter.json: a small model of the Vietnamese word segmenter, lines, and what the program
in Java (see rdrsegmenter.py) makes of them with that model, in every mode.

    make_segmenter.py > golden/segmenter.json
"""
import json
import struct
import sys
import tempfile

import rdrsegmenter

VOCABULARY = ["học sinh", "sinh viên", "sinh học", "hoà bình", "chìa khoá", "chìa khóa", "ả rập xê-út", "cà phê sữa đá",
              "cà phê", "cà phê sữa", "thuỷ thủ", "luỹ thừa", "đất nước", "bánh xe đạp điện tử", "ủy ban", "uỷ ban"]

# The root, rules with each key, borders, exceptions of exceptions, and siblings of which the first that holds counts.
RULES = """True : object.conclusion = "NN"
\tobject.tag == "I" : object.conclusion = "I"
\t\tobject.prevWord1 == "học" and object.word == "sinh" : object.conclusion = "I"
\t\t\tobject.nextWord1 == "học" : object.conclusion = "B"
\t\t\t\tobject.nextWord2 == "" and object.prevTag1 == "B" : object.conclusion = "I"
\t\tobject.prevWord2 == "ly" and object.word == "phê" : object.conclusion = "B"
\t\tobject.nextWord1 == "!" : object.conclusion = "B"
\t\tobject.prevWord2 == "" and object.prevTag2 == "" and object.word == "bình" : object.conclusion = "B"
\tobject.tag == "B" : object.conclusion = "B"
\t\tobject.word == "đá" and object.prevWord1 == "trà" : object.conclusion = "I"
\t\t\tobject.nextTag1 == "B" and object.nextTag2 == "I" : object.conclusion = "B"
\t\tobject.prevWord1 == "trà" : object.conclusion = "I"
\t\tobject.word == "hòa" : object.conclusion = "I"
\t\tobject.word == "hoà" and object.prevWord1 == "" : object.conclusion = "I"
\t\tobject.nextWord1 == "nhớ" and object.nextWord2 == "nhung" and object.prevTag1 == "I" : object.conclusion = "I"
\t\tobject.word == "." and object.nextWord1 == "" : object.conclusion = "I"
\t\tobject.nextTag1 == "" and object.word == "ạ" : object.conclusion = "I"
\t\tobject.word == "ạ" : object.conclusion = "B"
\t\tobject.word == "ạ" and object.prevWord1 == "vâng" : object.conclusion = "I"
\t\tobject.prevWord2 == "một" and object.prevTag1 == "B" and object.nextWord2 == "ba" : object.conclusion = "I"
\t\tobject.word == "lu\u0303y" : object.conclusion = "I"
"""

LINES = """
Ông Nguyễn Văn An, 45 tuổi, là học sinh cũ.
|TP.HCM|1.000.000đ|100km2.|100m2,|13/2018)|a13/2018)|http://a.vn/M7|(http://dantri.com.vn).|học_sinh|''|Co.opmart
|A.B.C.|abc.|?!|Node.js|(12h30)|12h30|12h30ph|(PGS.TS|(Th.S|v.v.|X.|J.Smith.|Jong-un.|Yahoo!|T&T|Wi-Fi.|(km/h)|5s|iPhone5s|18+
|a–b|«abc»|a=b|Â«abc|â€œtrích|a‘b’|a…b|....|..|.|…|a..b|(a)|[b]|{c}|a/b|c\\d|x|y|a#b|~a|a^b|<a>|a@b.c|.a@b|a@|@a|a@b@c|x.y-z@a-b.vn.
|www.a|www.ab|www.a.vn|ftp://x|ftp://xy z|http://|https://a|HTTP://A.VN|a.b.vn|ab.vnx1|A.1b.vn|đ.vn|vtv.vn:8080/x?y=1&z=2.|trang a.vn,b.vn
|1/1/2000|31.12.1999|32/1/2000|0/1|00/1|1-2/2000|12/13|5/13/2000|12/2018|13/2018|(5/2018)|thg5/2018|1/10/20|29/2.|112/5/2000
|1:2|23:59:59|24:00|9h|9h5p|9h05'|9h05’|19h60|7h30phút|123:45:67|€5|5€|1.5$|$1,2,3|€|1.2.|₫100|100₫|5€5€|1,,2
|+84912345678|(+84)912.345.678|0912345678|091-234-5678|12-345678|1234567|12345678|12-123-12|(+1)-12345678|+12|(028)38.123.456
|-5|+5%|5-3|2*3/4|1+-2|5%$|--5|3,5-4,5|1.2.3|50%|5%%|a-b|a-1|a.b.c-d|ab-|-ab|a-|𝐀-𝐁|𝐀|😀|😀.|a😀b|😀😀 |a\u0301-b|é.
1 . Một. 2. Hai.|1. Một. 2. Hai.|A. Một|đi . Về|Hỏi gì? Trả lời!|Anh nói: "Đi." Rồi đi.|"Đi." Rồi đi.|Gồm: 1. a 2. b|Gồm: a, b
|Thật à?) Vâng. ” Thế|Ừ.|Chờ... Rồi|Chờ... rồi|Đi! 5 người|Đi !|A ? B|Câu '' có ? '' Rồi|! ? .|a . b . C|(Hết.) Rồi.|Hết … Mới|: ,|: 1 .|a : , b
Hoà|Hòa bình|HÒA BÌNH|hòa bình ở|thủya thủy thủ|CHÌA KHÓA|chìa khóa|chìa khoá|Ủy ban|ủy ban|ÙY ÚY|ũy ụy ùy úy quỳ|lu\u0303y lũy lũy thừa|ọe oẹ ỏe õe óe òe óa õa ỏa ọa òa
|học sinh học|học sinh học sinh viên|Học Sinh|HỌC SINH|học Sinh|cà phê sữa đá|cà phê sữa nóng|ly cà phê|ly trà đá|trà đá cà phê|trà nóng|bánh xe đạp điện tử
|ả rập xê-út|A rập Xê-út|học sinh!|vâng ạ|vâng ạ nhé|một hai x ba|một Hai x ba|đất nước nhớ nhung|đất nước đất nhớ nhung|. .|\ufeffhọc sinh|\ufeffBT. x
|Hà Nội|hà nội|Trần Văn Hải Nam Anh|Lê Thị Bé|Nguyễn văn Thị Hoa|Ông Hồ Chí Minh nói|Văn Cao|Trần, Thị Hoa|Apple Google Iphone|Mỹ Đức Anh|nước Mỹ Anh|LBKT Nguyễn LBKT RBKT Hoa
|Đà Nẵng Mới|NATO Mới Anh|Anh NATO Mới|汉 字 Hoa|Hoa 汉 字|Iraq|Hoa Ⅳ Kỳ|Tây Ban Nha|Bồ Đào Nha Anh|KKhông Có|Kim Ⅴ|A1 B2|Xe Ô-tô
||   |\t \x0b\f|\x01|\x08a|a\x01 b|\x01,|\u00a0|\u3000|\u200b|a\u00a0b|\u0085|a\u2028b|\x1c|học\tsinh|học  sinh |a\x00b
"""


def vocabulary_bytes(words):
    head = bytes.fromhex("ACED000573720011") + b"java.util.HashSet" + bytes.fromhex("BA44859596B8B73403000078" + "70770C")
    strings = b"".join(b"t" + struct.pack(">H", len(word.encode())) + word.encode() for word in words)
    return head + struct.pack(">ifi", 64, 0.75, len(words)) + strings + b"x"


def main():
    # Lines are separated by | and line ends.
    lines = [line for row in LINES.strip("\n").split("\n") for line in (row[1:] if row.startswith("|") else row).split("|")]
    rdrsegmenter.start()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/VnVocab", "wb") as file:
            file.write(vocabulary_bytes(VOCABULARY))
        with open(f"{folder}/Model.RDR", "w", encoding="utf-8", newline="") as file:
            file.write(RULES)
        java = rdrsegmenter.Segmenter(folder)
        lines += ["x|y", "a||b"]
        cases = [{"text": line, **{mode: java.run(mode, line) for mode in rdrsegmenter.MODES}} for line in lines]
    json.dump({"vocabulary": VOCABULARY, "rules": RULES, "cases": cases}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
