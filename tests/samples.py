"""Small files that tests evaluate."""

import json
from pathlib import Path


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
