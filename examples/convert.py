"""A public data set in gradebook's words, as a pattern for converting one's own.

    python -m examples.convert prometheus vicuna_eval.json FOLDER

It writes outputs.jsonl, rubric.yaml and ratings.csv into FOLDER.
"""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

# The sections of a judge's prompt as the Prometheus files hold it.
SECTION = re.compile(
    r"###(?:The instruction to evaluate|Response to evaluate|Reference Answer \(Score 5\)|Score Rubrics):?\s*"
)

PROMETHEUS_RUBRIC = """\
id: prometheus_vicuna
version: 1.0.0
description: How well a response meets the criterion that was written for its instruction, as rated from 1 to 5.
criteria:
  - id: quality
    description: The response meets the criterion written for its instruction.
    weight: 1
    method: {type: ratings}
    levels:
      - {id: 1, score: 0.0, description: Meets nothing of the criterion.}
      - {id: 2, score: 0.25, description: Meets little of it.}
      - {id: 3, score: 0.5, description: Meets about half of it.}
      - {id: 4, score: 0.75, description: Meets nearly all of it.}
      - {id: 5, score: 1.0, description: Meets all of it.}
"""


def convert_prometheus(source: Path, folder: Path) -> None:
    """The 320 responses of four models, and the three scores of each as ratings by three raters."""
    entries = json.loads(source.read_text(encoding="utf-8"))
    case_ids: dict[str, str] = {}
    outputs, ratings = [], []
    for entry in entries:
        _, prompt, output, reference, _ = (part.strip() for part in SECTION.split(entry["instruction"]))
        case_id = case_ids.setdefault(prompt, f"case-{len(case_ids) + 1:02d}")
        model = entry["response_source"]
        outputs.append({"case_id": case_id, "model": model, "prompt": prompt, "output": output, "reference": reference})
        for number, score in enumerate(entry["gpt4_score"], start=1):
            ratings.append((case_id, model, "quality", f"sample_{number}", score))
    _write(folder, outputs, PROMETHEUS_RUBRIC)
    with (folder / "ratings.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("case_id", "model", "criterion_id", "rater", "level_id"))
        writer.writerows(ratings)


def _write(folder: Path, outputs: list[dict[str, Any]], rubric: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in outputs)
    (folder / "outputs.jsonl").write_text(lines, encoding="utf-8")
    (folder / "rubric.yaml").write_text(rubric, encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prometheus", source, folder]:
            convert_prometheus(Path(source), Path(folder))
        case _:
            sys.exit(__doc__)
