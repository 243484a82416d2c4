"""Small files that tests evaluate, and what a lake says of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_outputs(path: Path, count: int = 6, models: tuple[str, ...] = ("small", "large")) -> Path:
    """Write outputs of `count` cases by each model: the text names its case and model, so that no two are alike."""
    rows = [
        {
            "case_id": f"c{case}",
            "model": model,
            "prompt": f"Question {case}?",
            "output": f"Answer {case} of {model}, in a few words.",
        }
        for case in range(count)
        for model in models
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


RUBRIC = """
id: short_answer
version: {version}
pass_threshold: 0.0
criteria:
  - id: clarity
    description: Is the answer clear at first reading?
    weight: {weight}
    method: {{type: judge}}
    levels:
      - {{id: unclear, score: 0.0, description: It can't be understood.}}
      - {{id: clear, score: 1.0, description: It is understood at first reading.}}
  - id: length
    description: Between 2 and 50 words.
    weight: 1
    method: {{type: check, check: length_words, settings: {{min: 2, max: 50}}}}
"""


def write_rubric(path: Path, version: str = "1.0.0", weight: float = 1) -> Path:
    """Write a rubric with a judged and a checked criterion."""
    path.write_text(RUBRIC.format(version=version, weight=weight), encoding="utf-8")
    return path


JUDGED = """
- id: {name}
  description: Is it {name}?
  method: {{type: judge}}
  levels: [{{id: bad, score: 0, description: Not at all.}}, {{id: good, score: 1, description: "Yes, it is."}}]
"""


def judged_criteria(*names: str) -> str:
    """The YAML of judged criteria of two levels, an item of a rubric's list each."""
    return "".join(JUDGED.format(name=name) for name in names)


def query(gradebook: Callable[..., Any], sql: str, *options: str) -> Any:
    """The rows that `gradebook sql` answers with."""
    finished = gradebook("sql", sql, "--format", "json", *options)
    assert finished.code == 0, finished.err
    return json.loads(finished.out)
