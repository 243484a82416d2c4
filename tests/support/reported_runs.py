"""Published runs of as many models and criteria as a report is to show, each evaluated by checks alone."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.source.report_source import opened_source
from tests.support.published_runs import publish

CASE_COUNT = 12


def publish_run(folder: Path, models: Mapping[str, int], criteria: Iterable[Mapping[str, Any]], **request: Any) -> Any:
    """Publish a run; returns its summary. models: to each the share of 12 cases in which it says yes.

    criteria: each at least an id; it is met where an output says yes. request: what else an `EvaluationRequest` has.
    """
    outputs = [
        {"case_id": f"c{case}", "model": model, "output": f"{'yes' if case < count else 'no'}, {case} of {model}"}
        for model, count in models.items()
        for case in range(CASE_COUNT)
    ]
    name = request.setdefault("run_id", "a")
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in outputs), encoding="utf-8")
    rubric = {"id": "replies", "version": "1.0.0", "criteria": [said_yes(**each) for each in criteria]}
    (folder / "rubric.yaml").write_text(json.dumps(rubric), encoding="utf-8")
    return publish(path, folder / "rubric.yaml", **request)


def said_yes(**criterion: Any) -> dict[str, Any]:
    """A criterion that an output meets by saying yes."""
    check = {"type": "check", "check": "contains", "settings": {"any": ["yes"]}}
    weight = {} if criterion.get("gate") else {"weight": 1}
    return weight | {"description": f"Says yes ({criterion['id']}).", "method": check} | criterion


def source_of(folder: Path, summary: RunSummary, against: str | None = None) -> Any:
    """What a report of it is written from, open while a block runs."""
    return opened_source(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), summary, against)
