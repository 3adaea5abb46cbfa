#!/usr/bin/env python3
"""Counts what the hot loops of kernels with tensor cores are made of, for 7.5, 8.0, 8.9 and 9.0, and compares it with sass_budgets.txt.

    tests/cuda/sass.py [--write] DISASSEMBLER BUILD VERSION

DISASSEMBLER is NVIDIA's nvdisasm, BUILD (build/release/gpu_all) has objects, beside which nvcc has kept their machine code and
PTX; VERSION is nvcc's. --write writes the table instead.

A hot loop is a loop that holds an mma, without the hot loops in it. Instructions on all ways through it count, also on those
that few tiles take. A kernel that has mma outside loops is hot there, too. The rules:

    mma          there are as many in the machine code of a kernel as in its PTX
    predicate    none is under a predicate
    local        nothing hot reads or writes local memory
    64-bit       nothing hot multiplies 64-bit numbers in the PTX

The table has exceptions with reasons, and budgets. IMAD.WIDE has a budget but no rule: it makes 64 bits of 32 by 32, mul.lo
and mul.hi in one instruction, or an address. A kernel must neither exceed its budget nor stay below it: the table
tells what is reached. Another nvcc makes other instructions, so that only the first three rules are checked with one. Then
mistakes are planted, and each must be found."""
import collections
import concurrent.futures
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("sass_budgets.txt")
# The architectures, and their 16-bit type; kernels of the other one are empty.
HALF = {"sm_75": "f16", "sm_80": "bf16", "sm_89": "bf16", "sm_90": "bf16"}

Instruction = collections.namedtuple("Instruction", "guard name operands")
Part = collections.namedtuple("Part", "where instructions mma")  # where: "once:", or > for each loop around the loop
Code = collections.namedtuple("Code", "mma predicated parts wide local")  # the last two: in all parts
Ptx = collections.namedtuple("Ptx", "mma products")


# ---- instructions and loops ----


def parse(text, start, label, instruction):
    """Returns {kernel: ([Instruction], {label: index})}. The expressions match the lines where they begin."""
    kernels, code, labels = {}, [], {}
    for line in text.splitlines():
        if found := start.match(line):
            kernels[found[1]] = code, labels = [], {}
        elif found := label.match(line):
            labels[found[1]] = len(code)
        elif found := instruction.match(line):
            code.append(Instruction(*found.groups()))
    return kernels


def parse_sass(text):
    return parse(text, re.compile(r"\.text\.(\w+):"), re.compile(r"(\.L_\w+):"),
                 re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;"))


def parse_ptx(text):
    return parse(text, re.compile(r"(?:\.\w+ )*\.(?:entry|func)\b.*?(\w+)\($"), re.compile(r"(\$L\w+):"),
                 re.compile(r"\s*(?:@(!?%p\d+)\s+)?([a-z][\w.]*)\s*(.*?)\s*;"))


def successors(code, labels):
    """Returns for each instruction those that may run next."""
    after = [[] for _ in code]
    for i, (guard, name, operands) in enumerate(code):
        kind = name.split(".")[0].upper()
        if kind in ("BRA", "CALL"):  # ptxas leaves some loops by CALL; others lead to functions, and need no edge
            after[i] += [labels[x] for x in re.findall(r"[.$]L_\w+", operands)]
        if kind in ("BRX", "JMP", "JMX") or kind == "BRA" and not after[i]:
            raise ValueError(f"{name} {operands}: only jumps to labels are understood")
        ends = kind in ("EXIT", "RET") or kind == "BRA" and operands.startswith(("`", "$"))  # but BRA.U !UP0, `(.L_x_1)
        if (guard or not ends) and i + 1 < len(code):
            after[i].append(i + 1)
    return after


def visit(start, edges, nodes):
    """Yields the nodes that are reached from start, each after those that it leads to, and takes them from the set nodes."""
    todo = [(start, False)]
    while todo:
        i, done = todo.pop()
        if done:
            yield i
        elif i in nodes:
            nodes.remove(i)
            todo += [(i, True), *((j, False) for j in edges[i])]


def loops_with(wanted, nodes, after, before):
    """Returns the loops within nodes that hold one of wanted: components in which each instruction reaches each other, and,
    once the instructions where one is entered are taken away, those that remain of it."""
    left, order = set(nodes), []
    for i in sorted(nodes):
        order += visit(i, after, left)
    left, loops = set(nodes), []
    for i in reversed(order):
        loop = set(visit(i, before, left))
        if len(loop) > 1 and loop & wanted:
            inner = {x for x in loop if x and all(y in loop for y in before[x])}
            loops += [loop, *loops_with(wanted, inner, after, before)]
    return loops


def hot_parts(code, labels, wanted):
    """Returns [(where, indices)] of the parts of the code that hold `wanted`, each without the hot loops in it."""
    if not wanted:
        return []
    after, before = successors(code, labels), [[] for _ in code]
    for i, targets in enumerate(after):
        for j in targets:
            before[j].append(i)
    loops = sorted(loops_with(wanted, set(range(len(code))), after, before), key=min)
    parts = [(">" * sum(x < y for y in loops), x.difference(*(y for y in loops if y < x))) for x in loops]
    once = set(range(len(code))).difference(*loops)
    return [("once:", once)] * bool(once & wanted) + parts


def measure_sass(code, labels):
    mma = {i for i, x in enumerate(code) if x.name.startswith("HMMA")}
    parts = hot_parts(code, labels, mma)

    def count(*names):
        return sum(code[i].name.startswith(names) for _, part in parts for i in part)

    return Code(len(mma), sum(code[i].guard is not None for i in mma),
                tuple(Part(where, len(part), len(part & mma)) for where, part in parts),
                count("IMAD.WIDE", "UIMAD.WIDE"), count("LDL", "STL"))


def measure_ptx(code, labels):
    mma = {i for i, x in enumerate(code) if x.name.startswith("mma.")}
    product = re.compile(r"(mul|mad)\.(lo|hi)\.[su]64")
    return Ptx(len(mma), sum(bool(product.match(code[i].name)) for _, part in hot_parts(code, labels, mma) for i in part))


def short_names(mangled):
    """Returns {mangled: readable}."""
    names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    for noise, short in (("(anonymous namespace)::", ""), ("void ", ""), ("__nv_bfloat16", "bf16"), ("__half", "f16")):
        names = names.replace(noise, short)
    return dict(zip(mangled, (re.sub(r"\(.*", "", name) for name in names.splitlines())))


@functools.lru_cache(maxsize=1)  # three architectures have the same
def measure_origins(ptx):
    """Returns {kernel: Ptx}."""
    kernels = parse_ptx(ptx)
    names = short_names(list(kernels))
    return {names[x]: measure_ptx(*kernels[x]) for x in kernels}


def measure(sass, ptx, architecture):
    """Returns {kernel: (Code, Ptx)} of the kernels with mma in machine code or PTX, for one object and architecture."""
    kernels, origins = parse_sass(sass), measure_origins(ptx)
    measured = {}
    for mangled, name in short_names(list(kernels)).items():
        code, origin = measure_sass(*kernels[mangled]), origins.get(name, Ptx(0, 0))
        halves = {"f16", "bf16"} & set(re.findall(r"\w+", name))
        if code.mma or origin.mma and halves <= {HALF[architecture]}:
            measured[re.sub(rf"\b{HALF[architecture]}\b", "half", name)] = code, origin
    return measured


def read_texts(disassembler, kept):
    """Returns {architecture: (machine code, PTX)} of the files in the folder: layernorm.compute_80.sm_90.cubin is of
    layernorm.compute_80.ptx."""
    texts = {}
    for file in sorted(kept.glob("*.cubin")):
        ptx, _, architecture = file.stem.partition(".sm_")
        architecture = "sm_" + (architecture or ptx.rpartition("_")[2])
        if architecture in HALF:
            sass = subprocess.run([disassembler, "-c", file], capture_output=True, text=True, check=True).stdout
            texts[architecture] = sass, file.with_name(ptx + ".ptx").read_text()
    return texts


def measure_object(disassembler, kept, folder):
    """Returns [(folder, architecture, kernel, Code, Ptx)]."""
    return [(folder, architecture, kernel, *found)
            for architecture, texts in read_texts(disassembler, kept).items() for kernel, found in measure(*texts, architecture).items()]


# ---- the table ----

Row = collections.namedtuple("Row", "wide local products parts")
Reason = collections.namedtuple("Reason", "rule most pattern why")  # the first one that fits counts
HEADING = "# per mma  wide  local  64-bit  architectures      kernel: instructions/mma of each hot part"


def row_of(code, ptx):
    return Row(code.wide, code.local, ptx.products, code.parts)


def write_table(found, version, preface):
    """Returns the table as text. Architectures with the same numbers share a row."""
    rows = collections.defaultdict(list)
    for folder, architecture, kernel, code, ptx in found:
        rows[folder, kernel, row_of(code, ptx)].append(architecture)
    lines, last = [preface + f"nvcc {version}", "", HEADING], None
    for (folder, kernel, row), architectures in sorted(rows.items(), key=lambda x: (*x[0][:2], x[1])):
        lines += [] if folder == last else ["", "# " + folder]
        last = folder
        ratio = sum(x.instructions for x in row.parts if x.mma) / max(1, sum(x.mma for x in row.parts))
        parts = " ".join(f"{x.where}{x.instructions}/{x.mma}" for x in row.parts)
        lines.append(f"{ratio:9.2f}{row.wide:6}{row.local:7}{row.products:8}  {' '.join(architectures):17}  {kernel}: {parts}")
    return "\n".join(lines) + "\n"


def read_table(text):
    """Returns (nvcc's version, [Reason], {(architecture, kernel): Row}, the text before the version)."""
    version, reasons, rows = "", [], {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("nvcc "):
            version = line[5:]
        elif line.startswith("except "):
            rule, most, pattern, why = (x.strip() for x in line[7:].split(" | "))
            reasons.append(Reason(rule, int(most), pattern, why))
        elif found := re.fullmatch(r" *[\d.]+ +(\d+) +(\d+) +(\d+)  ([\w ]+?)  +(.+): (.+)", line):
            parts = tuple(Part(x, int(n), int(mma)) for x, n, mma in re.findall(r"(\D*?)(\d+)/(\d+)(?: |$)", found[6]))
            for architecture in found[4].split():
                rows[architecture, found[5]] = Row(int(found[1]), int(found[2]), int(found[3]), parts)
        elif line and not line.startswith("#"):
            raise ValueError(f"{TABLE}:{number}: expected a row, \"nvcc\", \"except\" or a comment, found {line}")
    return version, reasons, rows, re.split("^nvcc ", text, flags=re.M)[0]


# ---- the check ----


def compare_rows(where, row, budget):
    """Yields in what a kernel differs from its budget."""
    if [x[::2] for x in row.parts] != [x[::2] for x in budget.parts]:
        shapes = (" ".join(f"{x.where}{x.instructions}/{x.mma}" for x in y.parts) for y in (row, budget))
        yield "{}: its hot parts are {}, in the table {}: make sass-budgets, and say why".format(where, *shapes)
        return
    numbers = [(f"instructions in hot part {i + 1}", x.instructions, y.instructions)
               for i, (x, y) in enumerate(zip(row.parts, budget.parts))]
    numbers += [("IMAD.WIDE", row.wide, budget.wide), ("accesses to local memory", row.local, budget.local),
                ("64-bit products in PTX", row.products, budget.products)]
    for name, number, most in numbers:
        if number > most:
            yield f"{where}: {number} {name}, its budget is {most}: lower it, or make sass-budgets and say why"
        elif number < most:
            yield f"{where}: only {number} {name}, its budget is {most}: make sass-budgets, so that it stays so"


def compare(found, table, version):
    """Returns what is wrong, a sentence each."""
    known, reasons, budgets, _ = read_table(table)
    problems, needed, seen, same = [], set(), set(), version == known
    for _, architecture, kernel, code, ptx in found:
        where = f"{architecture} {kernel}"
        for rule, count, words in (
                ("mma", abs(code.mma - ptx.mma), f"{code.mma} mma in the machine code, {ptx.mma} in the PTX"),
                ("predicate", code.predicated, f"{code.predicated} mma under a predicate"),
                ("local", code.local, f"{code.local} hot accesses to local memory"),
                ("64-bit", ptx.products * same, f"{ptx.products} hot products of 64-bit numbers in the PTX")):
            fit = [x for x in reasons if x.rule == rule and count <= x.most and fnmatch.fnmatchcase(where, x.pattern)]
            if count:
                needed |= set(fit[:1])
                problems += [] if fit else [f"{where}: {words}"]
        if (architecture, kernel) in seen:
            problems.append(f"{where}: there are two")
        seen.add((architecture, kernel))
        budget = budgets.get((architecture, kernel))
        if budget is None:
            problems.append(f"{where}: is not in the table: make sass-budgets")
        elif same:
            problems += compare_rows(where, row_of(code, ptx), budget)
    problems += [f"{architecture} {kernel}: is in the table, but has no mma: make sass-budgets"
                 for architecture, kernel in budgets if (architecture, kernel) not in seen]
    return problems + [f"except {x.rule} | {x.most} | {x.pattern}: is no longer needed" for x in reasons
                       if same and x not in needed]


MMA = r"(\n[^\n]*\bHMMA[^\n]*)"
ROW = r"(?m)^( +[\d.]+ +\d.*>?)(\b\d+)(/\d+.*)\n"
# what is planted | in which text | expression | replacement | words of the sentence that must name it
MISTAKES = [
    ("an mma under a predicate", "sass", r"\bHMMA", "@!P0 HMMA", ": 1 mma under a predicate"),
    ("a lost mma", "sass", MMA, "", " mma in the machine code, "),
    ("a doubled mma", "sass", MMA, r"\1\1", " mma in the machine code, "),
    ("a spilled register", "sass", MMA, r"\1\n /*0010*/ STL [R1], R2 ;", ": 1 hot accesses to local memory"),
    ("a reloaded register", "sass", MMA, r"\1\n /*0010*/ @P1 LDL.64 R2, [R1] ;", ": 1 hot accesses to local memory"),
    ("a wide product", "sass", MMA, r"\1\n /*0010*/ IMAD.WIDE.U32 R2, R4, R5, RZ ;", " IMAD.WIDE, its budget is "),
    ("one instruction more", "sass", MMA, r"\1\n /*0010*/ NOP ;", "lower it, or "),
    ("one instruction less", "sass", r"\n[^\n]*\bLDSM[^\n]*", "", ": only "),
    ("a loop that ends", "sass", MMA, r"\1\n /*0010*/ EXIT ;", "its hot parts are "),
    ("a 64-bit product", "ptx", r"(\n\s*mma\.sync[^\n]*)", r"\1\nmul.lo.s64 %rd1, %rd2, %rd3;", " products of 64-bit numbers"),
    ("an mma lost before ptxas", "ptx", r"\n\s*mma\.sync[^\n]*", "", " mma in the machine code, "),
    ("a budget too low", "table", ROW, lambda x: f"{x[1]}{int(x[2]) - 1}{x[3]}\n", "lower it, or "),
    ("a budget too high", "table", ROW, lambda x: f"{x[1]}{int(x[2]) + 1}{x[3]}\n", ": only "),
    ("a missing row", "table", ROW, "", ": is not in the table"),
    ("a row of no kernel", "table", r"(?m)(sm_80 .*>): ", r"\1, 1: ", ": is in the table, but "),
    ("an exception for nothing", "table", r"(?m)^nvcc", "except local | 9 | * | none\nnvcc", ": is no longer needed"),
]


def check_mistakes(sass, ptx, version):
    """Returns what is wrong with compare: which of the MISTAKES it does not name in kernels that have none."""
    def problems(sass, ptx, table=None):
        found = [("", "sm_80", kernel, *both) for kernel, both in measure(sass, ptx, "sm_80").items()]
        table = table or write_table(found, version, "")
        return table, compare(found, table, version)

    texts = {"sass": sass, "ptx": ptx}
    texts["table"], wrong = problems(**texts)
    wrong = ["a new table: " + x for x in wrong]
    for what, where, expression, replacement, words in MISTAKES:
        planted = re.sub(expression, replacement, texts[where], count=1)
        if planted == texts[where] or not any(words in x for x in problems(**texts | {where: planted})[1]):
            wrong.append(f"{what}, planted in {where}, is not found")
    return wrong


def main():
    arguments = [x for x in sys.argv[1:] if x != "--write"]
    if len(arguments) != 3:
        sys.exit(__doc__)
    disassembler, build = (pathlib.Path(x).resolve() for x in arguments[:2])
    version = arguments[2]
    places = [x.parent for x in sorted(build.glob("kernels/cuda/**/*.compute_80.ptx")) if b"mma.sync" in x.read_bytes()]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        jobs = [pool.submit(measure_object, disassembler, x, str(x.parent.relative_to(build))) for x in places]
        found = [row for job in jobs for row in job.result()]
    table = TABLE.read_text()
    known, *_, preface = read_table(table)
    if "--write" in sys.argv:
        TABLE.write_text(write_table(found, version, preface))
        print(f"sass: wrote the budgets of {len(found)} kernels")
        return
    problems = compare(found, table, version)
    if known == version:
        problems += check_mistakes(*read_texts(disassembler, build / "kernels/cuda/gemm/gemm_bf16.kept")["sm_80"], version)
    for problem in problems:
        print("sass: " + problem)
    if known != version:
        print(f"sass: the budgets are for nvcc {known}: with {version}, only mma, predicates and local memory were checked, and which kernels there are")
    planted = len(MISTAKES) if known == version else 0
    print(f"sass: {len(found)} kernels with mma, {planted} planted mistakes, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
