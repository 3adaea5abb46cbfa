#!/usr/bin/env python3
"""Checks that train_cv reads the same counts from TIFF stacks and .sdt files as tifffile and sdtfile.

    python3 tests/reference/check_cv_files.py build/release/train_cv

Needs numpy, tifffile, imagecodecs and sdtfile. tifffile writes every type, byte order, layout and lossless compression,
and hyperstacks of ImageJ and OME. The .sdt files are made from the records that sdtfile documents.
"""
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import sdtfile
import sdtfile.sdtfile as records
import tifffile

SIDE, BINS = 21, 12
LAYOUTS = [{}, {"rowsperstrip": 4}, {"tile": (16, 16)}, {"compression": "packbits"}, {"compression": "zstd"},
           {"compression": "lzma"}, {"compression": "lzw"}, {"compression": "zlib", "tile": (32, 16)}]
PREDICTED = [{"compression": "zlib", "predictor": True}, {"compression": "lzw", "predictor": True, "rowsperstrip": 5},
             {"compression": "lzw", "predictor": True, "tile": (16, 16)}]
random = np.random.default_rng(5)


def read_store(path):
    """Returns the counts [T, H, W] of each cell by its file's name."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    counts = header["counts"]
    first, end = counts["data_offsets"]
    values = np.frombuffer(data[start + first : start + end], {"U8": "u1", "U16": "<u2"}[counts["dtype"]])
    return dict(zip(json.loads(header["__metadata__"]["files"]), values.reshape(counts["shape"])))


def sdt(counts, number, zipped, revision, image):
    """Returns the bytes of an .sdt file of one block. number: 0 for u16, 1 for u32, 2 for double."""
    info = b"*IDENTIFICATION\r\n  ID : SPC Setup & Data File\r\n*END\r\n"
    data = counts.astype(["<u2", "<u4", "<f8"][number]).tobytes()
    header, block = np.zeros(1, records.FILE_HEADER), np.zeros(1, records.BLOCK_HEADER)
    description = np.zeros(1, records.MEASURE_INFO)
    kind = "image" if image else "scan"
    description["adc_re"], description["tac_g"] = counts.shape[2], 1
    description[kind + "_y"], description[kind + "_x"] = counts.shape[:2]
    block["block_length"] = len(data)
    if zipped:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("data_block", data)
        data = archive.getvalue()
    start = header.itemsize + len(info)
    header["revision"], header["info_offs"], header["info_length"] = revision | 0x280, header.itemsize, len(info)
    header["meas_desc_block_offs"], header["no_of_meas_desc_blocks"] = start, 1
    header["meas_desc_block_length"] = description.itemsize
    header["data_block_offs"], header["no_of_data_blocks"] = start + description.itemsize, 1
    header["header_valid"], header["chksum"] = 0x5555, 0x55AA
    block["data_offs"] = start + description.itemsize + block.itemsize
    block["next_block_offs"] = block["data_offs"] + len(data)
    block["block_type"] = (0x61 if image else 0x11) | number << 8 | zipped << 12
    return header.tobytes() + info + description.tobytes() + block.tobytes() + data


def write_tiffs(folder):
    def write(counts, **options):
        path = os.path.join(folder, f"m{len(want)}_in.tif")
        tifffile.imwrite(path, counts, photometric="minisblack", **options)
        want[os.path.basename(path)] = tifffile.imread(path)

    want = {}
    for dtype in "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8".split():
        counts = random.integers(0, 120 if dtype[1] == "1" else 2000, (BINS, SIDE, SIDE)).astype(dtype)
        for layout in LAYOUTS + (PREDICTED if dtype not in ("u8", "i8") else []):
            for order in "<>":
                for big in (False, True):
                    write(counts, byteorder=order, bigtiff=big, **layout)
    counts = random.integers(0, 2000, (BINS, SIDE, SIDE)).astype("u2")
    for axes in ("TYX", "ZYX", "CYX"):
        for order in "<>":
            write(counts, imagej=True, byteorder=order, metadata={"axes": axes})
        write(counts, ome=True, metadata={"axes": axes})
    return want


def write_sdts(folder):
    want = {}
    for case in range(3 * 2 * 2 * 2):
        counts = random.integers(0, 2000, (SIDE, SIDE, BINS))
        path = os.path.join(folder, f"m{case}_in.sdt")
        with open(path, "wb") as file:
            file.write(sdt(counts, case % 3, case // 3 % 2, 12 + 3 * (case // 6 % 2), case // 12))
        (read,) = sdtfile.SdtFile(path).data
        assert (read == counts).all()
        want[os.path.basename(path)] = read.transpose(2, 0, 1)
    return want


def main(program):
    with tempfile.TemporaryDirectory() as root:
        folder = os.path.join(root, "cells", "D1")
        os.makedirs(folder)
        want = write_tiffs(folder) | write_sdts(folder)
        subprocess.run([program, "doctor", "--data", os.path.join(root, "cells")], check=True, stdout=subprocess.DEVNULL)
        store = read_store(os.path.join(root, "cells.flim.safetensors"))
    if sorted(store) != sorted("D1/" + name for name in want):
        sys.exit(f"{len(store)} of {len(want)} files are in the store")
    for name, counts in want.items():
        if not (store["D1/" + name] == counts).all():
            sys.exit(f"{name} has other counts")
    print(f"{len(want)} files: all counts are the same")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]))
