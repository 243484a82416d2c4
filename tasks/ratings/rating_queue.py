"""Outputs of a run in the order in which people rate them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.doubt_sampling import doubt_keys, inclusion_rates
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rubric_store.questions import ANSWERS, add_questions_of_run

MOST_NAMES = 10  # of criteria in a message


class Queue(StrEnum):
    """Choice of outputs to rate. `random`, `calibration` and `uncertain` support an estimate of means; the others find
    problems.
    """

    random = "random"
    calibration = "calibration"
    uncertain = "uncertain"
    disputed = "disputed"
    gates = "gates"
    weak = "weak"
    adjudicate = "adjudicate"


@dataclass(frozen=True, slots=True)
class QueuedOutput:
    """Output to rate. inclusion_rate: its probability of being in the queue, in (0, 1]; None if a rule chose it.

    opinions: ratings in dispute by criterion, marks of steps in dispute by criterion and step (`steps.3`), for a lead
    to decide; empty in other queues.
    """

    output_id: str
    selection: str
    inclusion_rate: float | None
    opinions: Mapping[str, list[Row]] = field(default_factory=dict)


# Causes of a disagreement, as a lead names them, and how sure the lead is.
CAUSES = {
    "ambiguous_text": "the text is ambiguous",
    "rubric_gap": "the rubric has a gap",
    "mistake": "a rater's mistake",
    "edge_case": "an edge case",
    "taste": "taste",
}
CONFIDENCES = ("low", "medium", "high")
JUDGE_SHOWN = "judge_shown"  # selection of outputs whose raters see the judge's verdict, whatever the queue


def step_name(criterion_id: str, step_index: int) -> str:
    """Name of a step's row on a sheet. No criterion's id has a dot."""
    return f"{criterion_id}.{step_index}"


def page_source(run_id: str) -> str:
    """Source of the ratings that people gave on the rating page of a run."""
    return f"rating page, run {run_id}"


def choose_outputs(  # noqa: PLR0913 - each narrows the choice
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    queue: Queue,
    count: int,
    next_ids: Sequence[str] = (),
    *,
    has_names: bool = False,
    criterion_ids: Collection[str] | None = None,
    made_ids: Collection[str] = (),
) -> tuple[QueuedOutput, ...]:
    """The first `count` outputs of a run in a queue. A larger count adds outputs at the end.

    The random order depends on the run alone: everyone who rates the run samples from one permutation. next_ids: the
    queue `calibration`, in order. has_names: opinions in dispute have their rater and time. criterion_ids: those
    of the sheet, the only ones that a lead can decide; None: all. made_ids: criteria rated by marks of steps; where
    steps are in dispute, these criteria are not. Raises `InputError` if the queue is empty.
    """
    if queue in (Queue.disputed, Queue.adjudicate):
        add_questions_of_run(connection, run_id, *ANSWERS)
    rows = () if queue is Queue.calibration else read_rows(connection, _select(queue), run_id=run_id)
    if queue is Queue.adjudicate:
        rows = _with_steps(rows, read_rows(connection, query("ratings/disputed_steps"), run_id=run_id), made_ids)
        rows = _on_sheet(rows, criterion_ids)
    output_ids = [*next_ids, *(str(row["output_id"]) for row in rows)]
    if not output_ids:
        raise InputError(f"--queue {queue.value}", f"no output of {run_id} in it", "one", _WHY_EMPTY[queue])
    if queue is Queue.calibration:
        return tuple(QueuedOutput(output_id, queue.value, None) for output_id in output_ids[:count])
    if queue is Queue.uncertain:
        draw = draw_by_doubt(connection, run_id)
        is_reached = np.arange(len(draw.output_ids)) < count
        rates, _ = inclusion_rates(draw.keys, draw.weights, is_reached)
        pairs = zip(draw.output_ids[:count], rates[:count].tolist(), strict=True)
        return tuple(QueuedOutput(output_id, queue.value, rate) for output_id, rate in pairs)
    if queue is not Queue.random:
        opinions = (_opinions(row, has_names=has_names) for row in rows[:count])
        disputed = zip(output_ids, opinions, strict=False)
        return tuple(QueuedOutput(output_id, queue.value, None, disputes) for output_id, disputes in disputed)
    rng = np.random.default_rng(list(run_id.encode()))
    rate = min(count / len(output_ids), 1.0)
    return tuple(
        QueuedOutput(output_ids[index], queue.value, rate) for index in rng.permutation(len(output_ids))[:count]
    )


@dataclass(frozen=True, slots=True)
class DoubtDraw:
    """Outputs of a run in the order of the queue `uncertain`. keys, weights: (output,), as of `doubt_keys`."""

    output_ids: tuple[str, ...]
    keys: Floats
    weights: Floats


def draw_by_doubt(connection: duckdb.DuckDBPyConnection, run_id: str) -> DoubtDraw:
    """All outputs of a run, drawn by the judge's doubt. The order depends on the run alone."""
    rows = read_rows(connection, query("ratings/queue_uncertain"), run_id=run_id)
    doubts = {row["output_id"]: row["doubt"] for row in rows}
    output_ids = [row["output_id"] for row in read_rows(connection, query("ratings/queue_random"), run_id=run_id)]
    rng = np.random.default_rng([*run_id.encode(), *Queue.uncertain.value.encode()])
    keys, weights = doubt_keys(np.array([doubts.get(output_id, 0.0) for output_id in output_ids]), rng)
    order = np.argsort(keys, kind="stable")
    return DoubtDraw(tuple(output_ids[index] for index in order), keys[order], weights[order])


def _with_steps(rows: Sequence[Row], steps: Sequence[Row], made_ids: Collection[str]) -> tuple[Row, ...]:
    """Rows of the outputs in dispute, the widest first, with steps in place of the criteria that they rate."""
    by_output = {row["output_id"]: dict(row) for row in rows}
    stepwise = {(step["output_id"], name) for step in steps for name in (step["criterion_id"], *made_ids)}
    for output_id, row in by_output.items():
        row["opinions"] = [
            dispute for dispute in row["opinions"] if (output_id, dispute["criterion_id"]) not in stepwise
        ]
    for step in steps:
        row = by_output.setdefault(step["output_id"], {"output_id": step["output_id"], "spread": 0.0, "opinions": []})
        name = step_name(step["criterion_id"], step["step_index"])
        row["opinions"].append({"criterion_id": name, "opinions": step["opinions"]})
        row["spread"] = max(row["spread"], step["spread"])
    return tuple(sorted(by_output.values(), key=lambda row: (-row["spread"], row["output_id"])))


def _on_sheet(rows: Sequence[Row], criterion_ids: Collection[str] | None) -> tuple[Row, ...]:
    """Rows with the disputes on criteria of the sheet alone. Raises `InputError` if all are on other criteria."""
    if criterion_ids is None:
        return tuple(rows)
    on_sheet, other_ids = [], set()
    for row in rows:
        disputes = [
            dispute for dispute in row["opinions"] if dispute["criterion_id"].partition(".")[0] in criterion_ids
        ]
        other_ids |= {
            dispute["criterion_id"].partition(".")[0] for dispute in row["opinions"] if dispute not in disputes
        }
        if disputes:
            on_sheet.append({**row, "opinions": disputes})
    if other_ids and not on_sheet:
        names = ", ".join(sorted(other_ids)[:MOST_NAMES])
        raise InputError(
            f"--queue {Queue.adjudicate.value}",
            f"disputes on {names} alone",
            "one on a criterion of the sheet",
            "--criterion names the criteria to decide",
        )
    return tuple(on_sheet)


def _opinions(row: Row, *, has_names: bool) -> dict[str, list[Row]]:
    """Ratings in dispute by criterion; without has_names, their raters and times are left out."""
    names = ("level_id", "score", "notes", *(("rater", "rated_at") if has_names else ()))
    return {
        dispute["criterion_id"]: [
            {name: opinion[name] for name in names}
            | ({"error": opinion["error"], "is_judge": opinion["rater"] is None} if "error" in opinion else {})
            for opinion in dispute["opinions"]
        ]
        for dispute in row.get("opinions", ())
    }


def _select(queue: Queue) -> str:
    match queue:
        case Queue.random | Queue.calibration:
            return query("ratings/queue_random")
        case Queue.uncertain:
            return query("ratings/queue_uncertain")
        case Queue.disputed:
            return query("ratings/queue_disputed")
        case Queue.gates:
            return query("ratings/queue_gates")
        case Queue.weak:
            return query("ratings/queue_weak")
        case Queue.adjudicate:
            return query("ratings/queue_adjudicate")


_WHY_EMPTY = {
    Queue.random: "the run has no outputs",
    Queue.calibration: "the judge scored none of its outputs, or people rated them all",
    Queue.uncertain: "its judge gave no token probabilities and was asked once for each question",
    Queue.disputed: "raters and judge agree wherever two of them scored the same output",
    Queue.gates: "no gate failed",
    Queue.weak: "no slice of the metadata does worse than the rest",
    Queue.adjudicate: "no two raters differ on an output and criterion, or a step, that was not decided since",
}
