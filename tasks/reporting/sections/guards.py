"""Section "Rewards": regressions that a rising reward may hide."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import interval_words, score_words, signed_words
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.report_source import ReportSource

MOST_RUNS = 50  # of the rubric, the newest
MOST_CHECKPOINTS = 20  # of a model and guard, the newest
_SHOWN_FOR = ("unrewarded", "judge")  # the section needs one of these
_NAMES = {"unrewarded": "not rewarded", "judge": "judge", "length": "length", "list": "lists"}


@dataclass(frozen=True, slots=True)
class GuardContents:
    """Sentences about what moved apart from the score, and the numbers."""

    sentences: tuple[str, ...]
    table: Table


def read_guards(source: ReportSource) -> GuardContents | None:
    """Read the guards of the reward; None without an unrewarded criterion and without a second judge."""
    run = source.summary.run
    parameters = {"rubric_id": run["rubric_id"], "version": run["version"], "most_runs": MOST_RUNS}
    guarded = [row["run_id"] for row in read_rows(source.connection, query("reporting/guarded_runs"), **parameters)]
    if not guarded:
        return None
    models = sorted({group.model for group in source.groups})
    rows = read_rows(source.connection, query("reporting/reward_guards"), run_ids=guarded, models=models)
    if not any(row["guard"] in _SHOWN_FOR for row in rows):
        return None
    series = [list(points)[-MOST_CHECKPOINTS:] for _, points in groupby(rows, key=_series)]
    table = table_of(
        "What the score may hide, by checkpoint, oldest first",
        ("Model", "Checkpoint", "Guard"),
        ("n", "Mean", "Gap or correlation", "95% interval"),
        [_cells(row) for points in series for row in points],
    )
    return GuardContents(tuple(sentence for points in series for sentence in _sentences(points)), table)


def _series(row: Row) -> tuple[Any, ...]:
    return row["model"], row["guard"], row["subject"]


def _cells(row: Row) -> tuple[str, ...]:
    figures = row["found"]
    mean = f"{figures['mean']:.0f} words" if row["guard"] == "length" else score_words(figures["mean"])
    number_words = score_words if row["guard"] == "unrewarded" else signed_words
    interval = "" if figures["ci_low"] is None else interval_words(figures["ci_low"], figures["ci_high"], number_words)
    value = "" if figures["value"] is None else signed_words(figures["value"])
    checkpoint = row["checkpoint"] or "–"
    return row["model"], checkpoint, _guard_name(row), f"{figures['n']:,}", mean, value, interval


def _guard_name(row: Row) -> str:
    return row["guard"] if row["guard"] == row["subject"] else f"{_NAMES[row['guard']]}: {row['subject']}"


def _sentences(points: Sequence[Row]) -> Iterator[str]:
    """Sentences on the guards that moved beyond their intervals, from the first checkpoint to the last."""
    first, last = points[0]["found"], points[-1]["found"]
    subject, model = points[-1]["subject"], model_name(points[-1])
    if points[-1]["guard"] == "judge" and last["ci_low"] is not None and last["ci_low"] > 0:
        yield f"{model}: the run's judge scores {signed_words(last['value'])} above {subject}, beyond chance."
    is_known = last["ci_high"] is not None and first["ci_low"] is not None
    if points[-1]["guard"] == "unrewarded" and is_known and last["ci_high"] < first["ci_low"]:
        path = f"from {score_words(first['mean'])} to {score_words(last['mean'])}"
        yield f"{model}: {subject}, which is not rewarded, fell {path} since {model_name(points[0])}."
