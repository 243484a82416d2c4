"""What a person or a schedule asks for, read and checked before anything is written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.datasets.row_parser import OneCheckpoint
from gradebook.tasks.lake.address import DEFAULT_LAKE

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What a person or a schedule asks for; the words of the command line."""

    outputs: str
    rubric: str
    judge: str | None = None
    ratings: str | None = None
    lake: str = DEFAULT_LAKE
    data: str | None = None
    run_id: str | None = None
    budget_usd: float | None = None
    max_bad_rate: float = 0.01
    column_map: Mapping[str, str] = field(default_factory=dict)
    allow_unscored: bool = False
    feedback: str | None = None  # llm: written by the judge; else put together from the verdicts
    trigger: str = "manual"
    allow_functions: tuple[str, ...] = ()  # packages whose functions may run, beside those of gradebook.toml
    record: str | None = None  # the file that keeps the judge's replies
    deadline: datetime | None = None  # when the batches of a judge are given up for requests online
    baseline: str | None = None  # the run that this one is compared with before it is published; or `latest`
    fail_if: str | None = None  # a rule over that comparison, which is not to hold
    checkpoint: OneCheckpoint | None = None  # what all outputs are of: rows of another do not fit
    dataset: str | None = None  # what the table `runs` calls the outputs, where that is not their path
    suite: str | None = None  # of a night: it stands beside its own run of an earlier one
    night: date | None = None  # the date of that night
    again: tuple[str, ...] = ()  # the words of the command that goes on with it, where that is not `gradebook evaluate`
    runner: str | None = None  # where checks are computed: `gradebook.tasks.runs.runner`; no figure depends on it


def refuse_bad_run_id(run_id: str | None) -> None:
    """Raise `InputError` where a run's name could not be a folder's; None: it is not named."""
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        raise InputError(f"--run-id: found {run_id!r}, expected up to 80 letters, digits, - and _")
