"""Published runs with any number of models and criteria, evaluated only by checks."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.report_source import opened_source
from tests.support.published_runs import publish

CASE_COUNT = 12


def publish_run(folder: Path, models: Mapping[str, int], criteria: Iterable[Mapping[str, Any]], **request: Any) -> Any:
    """Publish a run; returns its summary. models: the number of 12 cases in which a model answers yes, by model.

    criteria: fields of each, at least an id; met by an output with the word yes. request: further fields of
    `EvaluationRequest`.
    """
    outputs = [
        {"case_id": f"c{case}", "model": model, "output": f"{'yes' if case < count else 'no'}, {case} of {model}"}
        for model, count in models.items()
        for case in range(CASE_COUNT)
    ]
    name = request.setdefault("run_id", "a")
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in outputs), encoding="utf-8")
    rubric = {"id": "replies", "version": "1.0.0", "criteria": [yes_criterion(**each) for each in criteria]}
    (folder / "rubric.yaml").write_text(json.dumps(rubric), encoding="utf-8")
    return publish(path, folder / "rubric.yaml", **request)


def yes_criterion(**criterion: Any) -> dict[str, Any]:
    """Criterion that an output with the word yes meets."""
    check = {"type": "check", "check": "contains", "settings": {"any": ["yes"]}}
    weight = {} if criterion.get("gate") else {"weight": 1}
    return weight | {"description": f"Says yes ({criterion['id']}).", "method": check} | criterion


def source_of(folder: Path, summary: RunSummary, against: str | None = None) -> Any:
    """Open the source of its report during the block."""
    return opened_source(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), summary, against)
