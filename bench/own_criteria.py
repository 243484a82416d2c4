"""Time of an evaluation by people's ratings of criteria that each row brings along, from files to the published run.

    python bench/own_criteria.py [--n 5000] [--criteria 12]

Prints seconds, CPU seconds and peak memory of the whole command, its start included, for one output with 1,000
criteria, then for a tenth of the outputs and for all: ten times the ratings take at most ten times as long.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEVELS = [{"id": "no", "score": 0}, {"id": "yes", "score": 1}]
RATED = {"method": {"type": "ratings"}, "levels": LEVELS}


def write_files(folder: Path, output_count: int, criterion_count: int) -> None:
    """Write outputs with criteria of their own, each with its own text, and a rating of each."""
    with (folder / "outputs.jsonl").open("w") as outputs, (folder / "ratings.jsonl").open("w") as ratings:
        for number in range(output_count):
            names = [f"c{place}" for place in range(criterion_count)]
            own = [RATED | {"id": name, "description": f"Does {number} meet {name}?"} for name in names]
            slot = {"case_id": f"case-{number}", "model": "m"}
            outputs.write(json.dumps(slot | {"prompt": "Say.", "output": f"Text {number}.", "criteria": own}) + "\n")
            for place, name in enumerate(names):
                level = LEVELS[(number + place) % 2]["id"]
                ratings.write(json.dumps(slot | {"criterion_id": name, "rater": "anna", "level_id": level}) + "\n")


def evaluate(folder: Path) -> str:
    """Evaluate in a folder; returns the command's seconds, CPU seconds and peak memory."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "gradebook.flows.cli", "evaluate", "outputs.jsonl", "--rubric", "none"]
    command += ["--ratings", "ratings.jsonl", "--no-report"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit((folder / "log").read_text())
    cpu_s = usage.ru_utime + usage.ru_stime
    return f"{time.perf_counter() - begin:5.1f} s, {cpu_s:5.1f} s CPU, {usage.ru_maxrss / 1024:,.0f} MiB"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=5_000)
    parser.add_argument("--criteria", type=int, default=12)
    given = parser.parse_args()
    for output_count, criterion_count in ((1, 1_000), (given.n // 10, given.criteria), (given.n, given.criteria)):
        with tempfile.TemporaryDirectory() as name:
            write_files(Path(name), output_count, criterion_count)
            print(f"{output_count:6,} outputs x {criterion_count:4} criteria: {evaluate(Path(name))}", flush=True)


if __name__ == "__main__":
    main()
