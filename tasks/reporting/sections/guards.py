"""Section "Rewards": what a reward that rises from checkpoint to checkpoint may hide."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gradebook.rubrics.text.tables import Table, table_of
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words, signed_words

MOST_RUNS = 50  # of the rubric, the newest
MOST_CHECKPOINTS = 20  # of a model and guard, the newest
_SHOWN_FOR = ("unrewarded", "judge")  # without either, nobody trains on the score or asks what it hides
_NAMES = {"unrewarded": "not rewarded", "judge": "judge", "length": "length", "list": "lists"}


@dataclass(frozen=True, slots=True)
class GuardContents:
    """Sentences about what moved apart from the score, and the numbers."""

    sentences: tuple[str, ...]
    table: Table


def read_guards(source: ReportSource) -> GuardContents | None:
    """Read what guards the reward; None without a criterion that is not rewarded and without another judge."""
    run = source.summary.run
    named = {"rubric_id": run["rubric_id"], "version": run["version"], "most_runs": MOST_RUNS}
    guarded = [row["run_id"] for row in read_rows(source.connection, query("reporting/guarded_runs"), **named)]
    if not guarded:
        return None
    models = sorted({group.model for group in source.groups})
    rows = read_rows(source.connection, query("reporting/reward_guards"), run_ids=guarded, models=models)
    if not any(row["guard"] in _SHOWN_FOR for row in rows):
        return None
    series = [list(found)[-MOST_CHECKPOINTS:] for _, found in groupby(rows, key=_series)]
    table = table_of(
        "What the score may hide, by checkpoint, oldest first",
        ("Model", "Checkpoint", "Guard"),
        ("n", "Mean", "Gap or correlation", "95% interval"),
        [_cells(row) for found in series for row in found],
    )
    return GuardContents(tuple(sentence for found in series for sentence in _sentences(found)), table)


def _series(row: Row) -> tuple[Any, ...]:
    return row["model"], row["guard"], row["subject"]


def _cells(row: Row) -> tuple[str, ...]:
    found = row["found"]
    mean = f"{found['mean']:.0f} words" if row["guard"] == "length" else score_words(found["mean"])
    words = score_words if row["guard"] == "unrewarded" else signed_words
    interval = "" if found["ci_low"] is None else interval_words(found["ci_low"], found["ci_high"], words)
    value = "" if found["value"] is None else signed_words(found["value"])
    checkpoint = row["checkpoint"] or "–"
    return row["model"], checkpoint, _named(row), f"{found['n']:,}", mean, value, interval


def _named(row: Row) -> str:
    return row["guard"] if row["guard"] == row["subject"] else f"{_NAMES[row['guard']]}: {row['subject']}"


def _sentences(found: Sequence[Row]) -> Iterator[str]:
    """Sentences on the guards that moved beyond their intervals, from the first checkpoint to the last."""
    first, last = found[0]["found"], found[-1]["found"]
    subject, place = found[-1]["subject"], model_name(found[-1])
    if found[-1]["guard"] == "judge" and last["ci_low"] is not None and last["ci_low"] > 0:
        yield f"{place}: the run's judge scores {signed_words(last['value'])} above {subject}, beyond chance."
    is_known = last["ci_high"] is not None and first["ci_low"] is not None
    if found[-1]["guard"] == "unrewarded" and is_known and last["ci_high"] < first["ci_low"]:
        path = f"from {score_words(first['mean'])} to {score_words(last['mean'])}"
        yield f"{place}: {subject}, which is not rewarded, fell {path} since {model_name(found[0])}."
