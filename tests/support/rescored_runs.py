"""A lake of runs with all that bears on their tables of scores, for the tests that build those again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_lines

RUBRIC = """
id: short_answer
version: {version}
pass_threshold: {pass_threshold}
missing: skip
criteria:
  - id: clarity
    description: Is the answer clear at first reading?
    weight: {weight}
    method: {{type: judge}}
    levels:
      - {{id: unclear, score: 0.0, description: It can't be understood.}}
      - {{id: partly, score: 0.3, description: Some of it is understood.}}
      - {{id: clear, score: 1.0, description: It is understood at first reading.}}
  - id: evasion
    description: Does it evade the question?
    weight: -0.1
    method: {{type: judge}}
    levels: [{{id: direct, score: 0}}, {{id: evasive, score: 1}}]
  - id: length
    description: Between 2 and 50 words.
    {length}
    method: {{type: check, check: length_words, settings: {{min: 2, max: 50}}}}
"""
LIKED = """
  - id: liked
    description: Did a person like it?
    weight: 0.5
    threshold: 0.5
    method: {type: ratings}
    levels: [{id: disliked, score: 0}, {id: liked, score: 1}]
"""
BRIEF = {
    "id": "brief",
    "description": "At most 7 words.",
    "weight": 0.4,
    "method": {"type": "check", "check": "length_words", "settings": {"max": 7}},
}
LAKE = "lake/catalog.sqlite"


def write_rubric(path: Path, version: str = "1.0.0", *, more: str = LIKED, **changes: Any) -> Path:
    """Write a points rubric with two judged criteria and a checked one, and one that people rate."""
    values = {"pass_threshold": 0.1, "weight": 1.1, "length": "weight: 0.6"} | changes
    path.write_text(RUBRIC.format(version=version, **values) + more, encoding="utf-8")
    return path


def write_runs(folder: Path, evaluate: Callable[..., Any]) -> None:
    """Evaluate into folder/lake: `panel` by two judges, one of them twice, and two raters; then `none`.

    Of a model there are two checkpoints; some rows bring a criterion along; `panel` went by rubric.yaml. What both
    need stands in the folder.
    """
    outputs = [
        {"case_id": f"c{case}", "model": model, "checkpoint": step, "prompt": f"Question {case}?"}
        | {"output": f"Answer {case} of {model} at {step}, in {'very ' * case}few words."}
        | {"metadata": {"topic": "odd" if case % 2 else "even"}}
        | ({"criteria": [BRIEF]} if case % 2 else {})
        for case in range(10)
        for model, step in (("small", "100"), ("small", "200"), ("large", None))
    ]
    rated = [
        {"case_id": f"c{case}", "model": "large", "criterion_id": name, "rater": rater, "level_id": level}
        for case in range(5)
        for rater, odd in (("ann", 2), ("bob", 3))
        for name, level in (
            ("clarity", "clear" if case % odd else "partly"),
            ("liked", "liked" if case % odd else "disliked"),
        )
    ]
    write_lines(folder / "outputs.jsonl", outputs)
    write_lines(folder / "ratings.jsonl", rated)
    write_rubric(folder / "rubric.yaml")
    with LoopbackJudge() as one, LoopbackJudge() as other:
        for name, server, settings in (("a", one, "replicates: 2\n"), ("b", other, "")):
            written = f"model: {name}\nbase_url: {server.base_url}\nprices: {{input_usd: 1, output_usd: 1}}\n{settings}"
            (folder / f"{name}.yaml").write_text(written, encoding="utf-8")
        (folder / "judge.yaml").write_text("panel: [a.yaml, b.yaml]\n", encoding="utf-8")
        ratings = ("--ratings", folder / "ratings.jsonl")
        finished = evaluate_panel(folder, evaluate, "panel", folder / "rubric.yaml", *ratings)
    assert finished.code in (0, 1), finished.err
    finished = evaluate(*common(folder), "--rubric", "none", "--run-id", "none")
    assert finished.code in (0, 1), finished.err


def evaluate_panel(folder: Path, evaluate: Callable[..., Any], run_id: str, rubric: Path, *words: Any) -> Any:
    """Evaluate the outputs by the panel; what the ledger holds is not asked again."""
    return evaluate(*common(folder), "--rubric", rubric, "--judge", folder / "judge.yaml", "--run-id", run_id, *words)


def common(folder: Path) -> tuple[Any, ...]:
    """What each evaluation names."""
    return (folder / "outputs.jsonl", "--lake", lake_of(folder))


def lake_of(folder: Path) -> str:
    """The lake in a folder."""
    return f"sqlite:{folder}/{LAKE}"
