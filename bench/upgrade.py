"""Upgrade test: a lake of an older version, read by both versions and continued by this one.

    python bench/upgrade.py --before /path/to/older/.venv/bin/gradebook

The older version makes a lake in a temporary folder: judged outputs with ratings, two nightly runs of checks with a
per-case criterion, a comparison, a rescored run, a refused row. Then each reading command runs on a copy of that folder
by both versions; their JSON objects are compared key by key, and every difference is printed. Finally this version
repeats an evaluation of the old lake (without requests), rescores, rebuilds, verifies and examines it. Exits with 1 if
a step of this last part fails.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "support_replies"
OWN = {
    "id": "brief",
    "description": "Is it short?",
    "weight": 1,
    "method": {"type": "check", "check": "length_words", "settings": {"max": 9}},
}
RUBRIC = """\
id: nights
version: {version}
description: Answers of a support model.
pass_threshold: 0.5
criteria:
  - id: length
    description: Is it of a fitting length?
    weight: {weight}
    method: {{type: check, check: length_words, settings: {{min: 20, max: 90}}}}
  - id: plain
    description: Does it have no exclamation mark?
    gate: true
    method: {{type: check, check: not_contains, settings: {{any: ["!"]}}}}
"""
EVALUATE = "evaluate {outputs} --rubric {rubric} --run-id {run} --max-bad-rate 0.5 --json"
JUDGED = [
    "evaluate",
    "outputs.jsonl",
    "--rubric",
    "rubric.yaml",
    "--judge",
    "replay:replies.jsonl",
    "--ratings",
    "ratings.csv",
    "--run-id",
    "judged",
    "--json",
]
NIGHTS = [
    [*EVALUATE.format(outputs="one.jsonl", rubric="nights.yaml", run="night1").split()],
    [*EVALUATE.format(outputs="two.jsonl", rubric="nights.yaml", run="night2").split(), "--baseline", "night1"],
    ["rubric", "reweigh", "night2", "--rubric", "heavier.yaml", "--run-id", "heavier", "--json"],
]
TABLES = """
    outputs verdicts judgments ratings output_scores criterion_scores category_scores run_scores score_distribution
    agreement judge_noise run_comparisons weak_spots quality_results quarantine rubric_versions
""".split()  # noqa: SIM905
READERS = [
    "runs --json",
    "status --json",
    "versions --json",
    "doctor --json",
    "checkpoints --json",
    "cost --json",
    "cost night2 --json",
    "noise judged --json",
    "agreement judged --json",
    "calibrate judged --json",
    "compare night1 night2 --json",
    "compare judged --model-a support-small --model-b support-large --json",
    "ledger verify --json",
    "ratings list --json",
    "rubric list --json",
    "rubric diff nights.yaml heavier.yaml --json",
    "rubric lint rubric.yaml --json",
    "rubric show general_answer --json",
    "checks list --json",
    "checks show length_words --json",
    "power --n 200 --json",
    "rebuild night2 --check --json",
    "rebuild judged --check --json",
    "evaluate outputs.jsonl --rubric rubric.yaml --judge gpt-4o-mini --dry-run --json",
    "evaluate one.jsonl --rubric nights.yaml --max-bad-rate 0.5 --dry-run --json",
    "cost --rubric rubric.yaml --json",
    *(f"sql 'select * from {table} order by all' --format json" for table in TABLES),
    "report judged --format md --out judged.md",
    "report night2 --format md --out night2.md",
]
CONTINUED = [
    ("the same evaluation again: no request", [*JUDGED[:-3], "--run-id", "again", "--json"]),
    (
        "another night compared with an old one",
        [*EVALUATE.format(outputs="two.jsonl", rubric="nights.yaml", run="night3").split(), "--baseline", "night2"],
    ),
    (
        "an old run rescored",
        ["rubric", "reweigh", "night1", "--rubric", "heavier.yaml", "--run-id", "heavier1", "--json"],
    ),
    ("an old run rebuilt bit by bit", ["lake", "rebuild", "judged", "--check", "--json"]),
    ("the ledger verified", ["lake", "ledger", "verify", "--json"]),
    ("compacted", ["lake", "compact", "--json"]),
    ("examined", ["doctor", "--deep", "--json"]),
]


def main() -> None:
    """Make the lake, read it with both versions, continue it, and print each difference."""
    parser = argparse.ArgumentParser(description="Compare the output of two versions of gradebook on the same lake.")
    parser.add_argument("--before", type=Path, help="the `gradebook` command of the older version")
    before = parser.parse_args().before
    if before is None:
        print("upgrade: nothing to compare; name an older `gradebook` with --before")
        return
    commands = {"before": [str(before)], "after": [sys.executable, "-m", "gradebook.flows.cli"]}
    with tempfile.TemporaryDirectory(prefix="gradebook-upgrade-") as name:
        folder = Path(name) / "work"  # all copies use this path in turn, because messages contain it
        make_lake(folder, commands["before"])
        made = folder.rename(Path(name) / "made")
        answers = {side: read_all(made, folder, command) for side, command in commands.items()}
        count = print_differences(answers["before"], answers["after"])
        failed = continue_lake(made, folder, commands["after"])
    print(f"{len(READERS)} commands on a lake of the older version: {count} differ")
    print(f"{len(CONTINUED) - failed} of {len(CONTINUED)} steps continue that lake")
    sys.exit(bool(failed))


def make_lake(folder: Path, command: list[str]) -> None:
    """Write files and a lake with four runs, by the older version."""
    shutil.copytree(EXAMPLE, folder)
    rows = [json.loads(line) for line in (folder / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    for name, chosen in (("one", rows[::2]), ("two", rows)):
        lines = [json.dumps(row | ({"criteria": [OWN]} if index % 5 == 0 else {})) for index, row in enumerate(chosen)]
        (folder / f"{name}.jsonl").write_text("\n".join([*lines, '{"case_id": "no output"}', ""]), encoding="utf-8")
    (folder / "nights.yaml").write_text(RUBRIC.format(version="1.0.0", weight=1), encoding="utf-8")
    (folder / "heavier.yaml").write_text(RUBRIC.format(version="1.1.0", weight=3), encoding="utf-8")
    for words in (JUDGED, *NIGHTS):
        finished = run(command, words, folder)
        if finished.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(words)}: exit {finished.returncode}\n{finished.stderr}")


def run(command: list[str], words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run one command in a folder, without keys and without a reachable judge."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "GRADEBOOK_"))}
    environment |= {"OPENAI_API_KEY": "none", "NO_COLOR": "1", "PYTHONPATH": str(ROOT) if "-m" in command else ""}
    return subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def read_all(made: Path, folder: Path, command: list[str]) -> dict[str, Any]:
    """Exit code and JSON object, or text, of each reading command."""
    shutil.copytree(made, folder)
    answers = {}
    for line in READERS:
        words = line.split() if "'" not in line else ["sql", line.split("'")[1], *line.split("'")[2].split()]
        finished = run(command, words, folder)
        answers[line] = {"exit": finished.returncode, "answer": parsed(finished.stdout)}
        if finished.returncode not in (0, 1):
            answers[line]["error"] = finished.stderr.strip().splitlines()[-1:]
    for page in sorted(folder.glob("*.md")):
        answers[page.name] = page.read_text(encoding="utf-8").splitlines()
    shutil.rmtree(folder)
    return answers


def parsed(text: str) -> Any:
    """Text as a JSON object, or as lines if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text.splitlines()


def print_differences(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print differences; returns the number of commands with a difference."""
    count = 0
    for name, answer in before.items():
        found = list(differences(answer, after.get(name), ""))
        count += bool(found)
        for place, old, new in found[:12]:
            print(f"{name}{place}: {shortened(old)} -> {shortened(new)}")
        if len(found) > 12:
            print(f"{name}: {len(found) - 12} more")
    return count


def differences(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Differences of two JSON values, with the path of keys to each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "(no such key)"), new.get(key, "(no such key)"), f"{place} {key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{place}[{index}]")
    elif old != new:
        yield place, old, new


def shortened(value: Any) -> str:
    """Value on one line of at most 160 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:120]} ... {text[-36:]}"


def continue_lake(made: Path, folder: Path, command: list[str]) -> int:
    """Continue the older lake with this version; returns the number of failed steps."""
    shutil.copytree(made, folder)
    failed = 0
    for name, words in CONTINUED:
        finished = run(command, words, folder)
        is_fine = finished.returncode in (0, 1) and not (
            words[0] in ("doctor", "rebuild", "ledger") and finished.returncode
        )
        failed += not is_fine
        if not is_fine:
            print(f"{name}: exit {finished.returncode}: {finished.stderr.strip()[-400:]}{finished.stdout[-400:]}")
    return failed


if __name__ == "__main__":
    main()
