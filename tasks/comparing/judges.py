"""Judges of two runs: their scores are comparable only if one judge, asked in one way, scored both."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX
from gradebook.tasks.judging.settings.panels import Judge
from gradebook.tasks.lake.sql import query

ACROSS_JUDGES = "--across-judges"
_PROMPT = ("prompt_version", "prompt_digest")


@dataclass(frozen=True, slots=True)
class AskedJudge:
    """Judge of a run. name: None if none was asked. identity: settings that affect a reply, None if not recorded.

    models: by judge, the models that answered, as the endpoint named them; empty if unknown. epoch: time between two
    changes that its anchors showed, from 1; None for a judge without anchors.
    """

    name: str | None = None
    identity: Mapping[str, Any] | None = None
    models: Mapping[str, frozenset[str]] | None = None
    epoch: int | None = None


def read_asked_judge(
    connection: duckdb.DuckDBPyConnection, run_id: str, name: str | None, settings: str | None, epoch: int | None = None
) -> AskedJudge:
    """Judge of a published run. name, settings, epoch: of its row of `runs`."""
    if name is None:
        return AskedJudge()
    rows = connection.execute(query("comparing/answering_models"), {"run_id": run_id}).fetchall()
    models = {judge: frozenset(found) for judge, found in rows}
    return AskedJudge(name, json.loads(settings or "{}").get("judge"), models, epoch)


def asked_judge(judge: Judge | None, epoch: int | None = None) -> AskedJudge:
    """Judge of a run that is not published; the models that will answer are unknown. epoch: from `read_epoch`."""
    if judge is None:
        return AskedJudge()
    return AskedJudge(judge.judge, json.loads(json.dumps(judge.identity)), epoch=epoch)  # as read from `runs`


def read_epoch(connection: duckdb.DuckDBPyConnection, judge: Judge | None) -> int | None:
    """Current epoch of a judge, the highest over its anchor sets; None for a judge without anchors."""
    if judge is None:
        return None
    with suppress(duckdb.CatalogException):  # a lake of an earlier gradebook
        rows = connection.execute(query("comparing/judge_epoch"), {"judge_digest": judge.judge_digest}).fetchall()
        return None if rows[0][0] is None else int(rows[0][0])
    return None


def is_judged(rubric: Rubric, own_methods: frozenset[str] = frozenset()) -> bool:
    """Whether a judge scores any criterion. own_methods: of the per-case criteria."""
    return "judge" in own_methods or bool(rubric.asked_criteria)


def describe_judges(a: AskedJudge, b: AskedJudge) -> str | None:
    """Difference of two judges in words; None if it is one judge, or if a side has none.

    Two files of recorded replies count as one judge: a recording does not name whose replies it holds.
    """
    if a.name is None or b.name is None:
        return None
    of_a, of_b = a.identity, b.identity
    if are_recorded(a.name, b.name):
        return None
    if of_a is not None and of_a == of_b:
        return _other_models(a, b) or _other_epochs(a, b)
    if a.name != b.name:
        return f"different judges: {a.name} in A and {b.name} in B"
    if of_a is None or of_b is None:
        return _other_models(a, b)
    names = [name for name in {**of_a, **of_b} if of_a.get(name) != of_b.get(name)]
    words = [f"{name} {_shown(of_a.get(name))} and {_shown(of_b.get(name))}" for name in names if name not in _PROMPT]
    words += ["another prompt"] if any(name in _PROMPT for name in names) else []
    return f"{a.name} was asked with different settings in A and B: {', '.join(words)}"


def are_recorded(a: str | None, b: str | None) -> bool:
    """Whether the judges of these names are both recorded replies."""
    return all((name or "").startswith(REPLAY_PREFIX) for name in (a, b))


def judges_banner(difference: str | None) -> str | None:
    """Banner over a comparison of different judges."""
    if difference is None:
        return None
    return f"{difference}. A judge may be stricter than another, so scores may differ though the outputs do not."


def refuse_judges(difference: str | None, option: str) -> None:
    """Raise `InputError` if a rule would be checked across different judges."""
    if difference is not None:
        raise InputError(option, difference, "one judge for both runs", f"{ACROSS_JUDGES} compares them all the same")


def _other_models(a: AskedJudge, b: AskedJudge) -> str | None:
    of_a, of_b = a.models or {}, b.models or {}
    for judge in sorted(of_a.keys() & of_b.keys()):
        if of_a[judge] != of_b[judge]:
            shown = [", ".join(sorted(found[judge])) for found in (of_a, of_b)]
            return f"{judge} was answered by different models: {shown[0]} in A and {shown[1]} in B"
    return None


def _other_epochs(a: AskedJudge, b: AskedJudge) -> str | None:
    if a.epoch is None or b.epoch is None or a.epoch == b.epoch:
        return None
    return f"{a.name} changed, as its anchors showed: judge epoch {a.epoch} in A and {b.epoch} in B"


def _shown(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
