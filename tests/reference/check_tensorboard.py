"""Reads the TensorBoard files of a run with the reader of TensorBoard, and compares every scalar with log.jsonl.

    python3 tests/reference/check_tensorboard.py OUTPUT_DIR [...]

Run this check by hand; it needs the packages tensorboard and numpy. A scalar is a float32 in TensorBoard and has nine digits
in log.jsonl: they may differ by half a unit in the last place of the float. The check also covers resumed runs: if a step
was repeated, its later event counts.
"""

import json
import os
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def events_of(directory):
    """Returns {(name, step): value} of all runs in directory/logs. Later runs count; the name of a run is its time."""
    values = {}
    logs = os.path.join(directory, "logs")
    for run in sorted(os.listdir(logs)):
        reader = EventAccumulator(os.path.join(logs, run), size_guidance={"scalars": 0})
        reader.Reload()
        for name in reader.Tags()["scalars"]:
            for event in reader.Scalars(name):
                values[name, event.step] = event.value
    return values


def check(directory):
    events, compared = events_of(directory), 0
    with open(os.path.join(directory, "log.jsonl"), encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            step = record["step"]
            for name, value in record.items():
                if name in ("kind", "step", "time"):
                    continue
                got = np.float32(events[name, step])
                same = not np.isfinite(got) if value is None else abs(got - value) <= np.spacing(abs(got)) / 2 * 1.01
                if not same:
                    sys.exit(f"{directory}: {name} of step {step}: {got} in TensorBoard, {value} in log.jsonl")
                compared += 1
    if not compared:
        sys.exit(f"{directory}: nothing to compare")
    print(f"{directory}: {compared} scalars agree")


for directory in sys.argv[1:]:
    check(directory)
