"""Published runs whose judge replied several times: opinions of given scores, and what they come to."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.model.verdicts import OPINION_SCHEMA
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from tests.support.scored_lake import write_runs, write_scores

LEVELS = [{"id": f"l{score}", "score": score / 2, "description": "x"} for score in range(3)]
PLAIN_JUDGE = {"kind": "openai_chat", "model": "judge"}

Replies = Mapping[str, NDArray[np.float64]]  # by criterion and judge: (output, replicate), NaN: unscored


def make_rubric(rubric_id: str, *criteria: dict[str, Any], **more: Any) -> Rubric:
    shared = {"description": "?", "method": {"type": "judge"}, "levels": LEVELS}
    return Rubric.model_validate(
        {"id": rubric_id, "version": "1.0.0", "criteria": [shared | each for each in criteria]} | more
    )


def write_replicates(
    lake: Lake,
    run_id: str,
    rubric: Rubric,
    outputs: Sequence[Mapping[str, Any]],
    replies: Mapping[str, Replies],
    *,
    identity: Mapping[str, Any] | None = PLAIN_JUDGE,
) -> None:
    """Publish a run of outputs whose judges, by name, gave these replies; scores of an output are its other verdicts.

    The verdict that rests on replies is their mean, as good as any here.
    """
    rows, opinions = [], []
    for place, output in enumerate(outputs):
        output_id = f"{run_id}/{place}"
        said = {(name, judge): found[place] for judge, by_name in replies.items() for name, found in by_name.items()}
        names = {name for name, _ in said}
        means = {name: _mean([scores for (of, _), scores in said.items() if of == name]) for name in names}
        rows.append({**output, "output_id": output_id, "scores": {**output.get("scores", {}), **means}})
        opinions += [
            _opinion(output_id, name, judge, replicate, score)
            for (name, judge), scores in said.items()
            for replicate, score in enumerate(scores.tolist())
        ]
    write_scores(lake, run_id, rubric, rows)
    table = pa.Table.from_pylist([row | {"run_id": run_id} for row in opinions], OPINION_SCHEMA)

    def body(connection: Any, _: int) -> None:
        connection.register("given", table)
        connection.execute("insert into opinions by name from given")
        connection.execute(
            "update runs set judge = ?, settings = ? where run_id = ?",
            [", ".join(replies), json.dumps({"judge": identity}), run_id],
        )

    commit(lake, f"opinions of {run_id}", body)


def write_first_replicates(
    lake: Lake, run_id: str, rubric: Rubric, outputs: Sequence[Mapping[str, Any]], replies: Replies
) -> None:
    """Publish the first two replicates of the same outputs as runs, `RUN_ID-0` and `RUN_ID-1`, to be compared."""
    runs = {}
    for replicate in range(2):
        rows = []
        for place, output in enumerate(outputs):
            scores = {name: _known(found[place, replicate]) for name, found in replies.items()}
            rows.append({**output, "output_id": f"{run_id}/{place}", "scores": {**output.get("scores", {}), **scores}})
        runs[f"{run_id}-{replicate}"] = (rubric, rows)
    write_runs(lake, runs)


def _mean(found: list[NDArray[np.float64]]) -> float | None:
    values = np.concatenate(found)
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _known(score: float) -> float | None:
    return None if np.isnan(score) else float(score)


def _opinion(output_id: str, criterion_id: str, judge: str, replicate: int, score: float) -> dict[str, Any]:
    known = _known(score)
    return {
        "output_id": output_id,
        "criterion_id": criterion_id,
        "judge": judge,
        "replicate": replicate,
        "is_swapped": False,
        "request_key": f"{output_id}|{criterion_id}|{judge}|{replicate}",
        "status": "unscored" if known is None else "scored",
        "level_id": None if known is None else f"l{round(2 * known)}",
        "score": known,
        "reason": "no_reply" if known is None else None,
    }
