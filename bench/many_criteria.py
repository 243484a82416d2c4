"""Time of an evaluation of 100 outputs by 2,000 checks, in one list and in a tree of categories, from file to report.

    python bench/many_criteria.py [--criteria 2000] [--n 100]

Prints seconds and CPU seconds of the whole command, its start included, for a quarter, half and all of the criteria:
twice the criteria take at most twice as long.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BRANCHES = 10  # criteria in a category at the bottom, and categories in each category above


def flat_rubric(count: int) -> str:
    """Rubric of that many checks in one list."""
    return "id: flat\nversion: 1.0.0\ncriteria:\n" + "".join(_criterion(place) for place in range(count))


def tree_rubric(count: int) -> str:
    """Rubric of that many checks, ten in a category, and ten categories in each enclosing one."""
    lines, level, size = [], 0, count
    while size > 1:
        size = -(-size // BRANCHES)
        for place in range(size):
            parent = f", parent: k{level + 1}_{place // BRANCHES}" if size > 1 else ""
            lines.append(f"  - {{id: k{level}_{place}, weight: {1 + place % 3}{parent}}}\n")
        level += 1
    criteria = "".join(_criterion(place, f", category: k0_{place // BRANCHES}") for place in range(count))
    return "id: tree\nversion: 1.0.0\ncategories:\n" + "".join(reversed(lines)) + "criteria:\n" + criteria


def _criterion(place: int, category: str = "") -> str:
    method = f"{{type: check, check: contains, settings: {{any: [word{place % 97}]}}}}"
    return f"  - {{id: c{place}, description: Criterion {place}., weight: 1{category}, method: {method}}}\n"


def write_outputs(path: Path, count: int) -> None:
    """Write outputs of a few of the criteria's words each."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            text = " ".join(f"word{(number * step) % 97}" for step in range(1, 60))
            file.write(json.dumps({"case_id": f"c{number}", "model": "m", "prompt": "Say.", "output": text}) + "\n")


def evaluate(rubric: str, folder: Path, output_count: int) -> tuple[float, float]:
    """Evaluate in a new folder; returns the command's seconds and CPU seconds."""
    folder.mkdir()
    (folder / "rubric.yaml").write_text(rubric, encoding="utf-8")
    write_outputs(folder / "outputs.jsonl", output_count)
    begin, cpu_s = time.perf_counter(), _children_cpu_s()
    command = [sys.executable, "-m", "gradebook.flows.cli", "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)
    return time.perf_counter() - begin, _children_cpu_s() - cpu_s


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--criteria", type=int, default=2000)
    parser.add_argument("--n", type=int, default=100)
    given = parser.parse_args()
    for count in (given.criteria // 4, given.criteria // 2, given.criteria):
        for shape, make in (("list", flat_rubric), ("tree", tree_rubric)):
            with tempfile.TemporaryDirectory() as name:
                wall_s, cpu_s = evaluate(make(count), Path(name) / "run", given.n)
            print(f"{count:6} criteria in a {shape}: {wall_s:5.1f} s, {cpu_s:5.1f} s CPU", flush=True)


if __name__ == "__main__":
    main()
