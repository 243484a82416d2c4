"""A night of several evaluations: how each suite ended, what is left of the budget, and what all of it came to."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import GradebookError, UnfinishedError
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import Upkeep
from gradebook.tasks.lake.connections import connect, lake_exists
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.drawing.figures import table_of
from gradebook.tasks.reporting.export.markdown import escaped, table_text
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.system.number_format import counted, price_words, score_words, signed_words

MOST_NAMED = 5  # suites in a sentence
LONGEST_FAULT = 300  # characters of a suite's fault in a sentence


@dataclass(frozen=True, slots=True)
class SuiteMean:
    """A model's mean in a suite's run. before: of the baseline, on the cases of both; None where there is none."""

    model: str
    mean: float | None
    before: float | None
    difference: float | None


@dataclass(frozen=True, slots=True)
class SuiteEnd:
    """How one suite ended. run_id: None where none was begun; cost_usd: None where it can't be known.

    fault: why there is no published run; None where there is one. unmet: gates and rules that it does not meet.
    """

    suite: str
    run_id: str | None
    cost_usd: float | None
    is_met: bool = False
    verdict: str = ""
    unmet: tuple[str, ...] = ()
    means: tuple[SuiteMean, ...] = ()
    report: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Night:
    """All suites of a night, in their order. upkeep: what was done to the lake, or why not."""

    date: date
    ends: tuple[SuiteEnd, ...]
    budget_usd: float | None
    upkeep: Upkeep | None = None
    upkeep_fault: str | None = None

    @property
    def failed(self) -> tuple[SuiteEnd, ...]:
        """The suites without a published run."""
        return tuple(end for end in self.ends if end.fault is not None)

    @property
    def unmet(self) -> tuple[SuiteEnd, ...]:
        """The published suites that do not meet a gate, a threshold or their rule."""
        return tuple(end for end in self.ends if end.fault is None and not end.is_met)

    @property
    def cost_usd(self) -> float | None:
        """What all suites cost; None where the cost of one is not known."""
        costs = [end.cost_usd for end in self.ends]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def sentence(self) -> str:
        """How the night ended."""
        published = len(self.ends) - len(self.failed)
        words = [f"{published} of {counted(len(self.ends), 'suite')} published"]
        if self.unmet:
            words.append(f"gates not met by {_named([end.suite for end in self.unmet])}")
        if self.failed:
            faults = [f"{end.suite} ({' '.join((end.fault or '').split())[:LONGEST_FAULT]})" for end in self.failed]
            words.append(f"not finished: {_named(faults)}")
        return "; ".join(words)

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        counts = {"failed_count": len(self.failed), "unmet_count": len(self.unmet), "cost_usd": self.cost_usd}
        values = {"date": self.date.isoformat(), "sentence": self.sentence, "budget_usd": self.budget_usd, **counts}
        upkeep = self.upkeep.as_json() if self.upkeep else None
        return values | {
            "suites": [asdict(end) for end in self.ends],
            "upkeep": upkeep,
            "upkeep_fault": self.upkeep_fault,
        }


class NightUnfinished(UnfinishedError):
    """At least one suite of a night has no published run."""

    def __init__(self, night: Night) -> None:
        super().__init__(night)  # args == parameters, so it pickles

    @property
    def night(self) -> Night:
        """How each suite ended."""
        night: Night = self.args[0]
        return night

    def __str__(self) -> str:
        return f"{self.night.sentence}; the same command goes on with them"


def budget_left(budget_usd: float | None, ends: Sequence[tuple[SuiteEnd, EvaluationRequest]]) -> float | None:
    """What the suites so far left of the night's budget; None where there is none.

    ends: each with what it asked for. Of one whose cost is not known it is taken that it spent all that it might.
    """
    if budget_usd is None:
        return None
    spent = 0.0
    for end, request in ends:
        most = budget_usd if request.budget_usd is None else request.budget_usd
        spent += most if end.cost_usd is None else end.cost_usd
    return max(0.0, budget_usd - spent)


def published_end(suite: str, summary: RunSummary, report: Path) -> SuiteEnd:
    """The end of a suite with a published run."""
    return SuiteEnd(
        suite,
        summary.run_id,
        summary.run["cost_usd"],
        summary.is_met,
        summary.verdict,
        summary.unmet,
        tuple(_means(summary)),
        report.as_uri(),
    )


def failed_end(suite: str, request: EvaluationRequest, began_at: datetime, error: Exception) -> SuiteEnd:
    """The end of a suite without one: why, and what its run cost so far."""
    fault = str(error) if isinstance(error, GradebookError) else f"unexpected {type(error).__name__}: {error}"
    try:
        run = _begun_run(request, began_at)
    except (GradebookError, duckdb.Error):  # the lake may be what failed
        return SuiteEnd(suite, request.run_id, None, fault=fault)
    if run is None:
        return SuiteEnd(suite, None, 0.0, fault=fault)
    return SuiteEnd(suite, run["run_id"], run["cost_usd"], fault=fault)


def night_text(night: Night) -> str:
    """The night in Markdown: a line a suite and model, then what is not met and why what failed did."""
    headings = ("Suite", "Verdict", "Model"), ("Mean", "Before", "Difference", "Cost")
    rows = [row for end in night.ends for row in _rows(end)]
    lines = [str(escaped(night.sentence, 4_000)), "", str(table_text(table_of("Suites", *headings, rows))), ""]
    for end in night.ends:
        told = [f"run {escaped(end.run_id)}"] if end.run_id else []
        told += [f"[report]({end.report})"] if end.report else []
        told += [str(escaped(sentence)) for sentence in (*end.unmet, *([end.fault] if end.fault else []))]
        lines.append(f"- **{escaped(end.suite)}**: {'; '.join(told)}")
    spent = price_words(night.cost_usd)
    lines += ["", f"Spent {spent}" + ("." if night.budget_usd is None else f" of {price_words(night.budget_usd)}.")]
    if upkeep := night.upkeep_fault or (night.upkeep and night.upkeep.sentence):
        lines += ["", str(escaped(f"Upkeep of the lake: {upkeep}"))]
    return "\n".join(lines) + "\n"


def suite_rows(night: Night) -> list[tuple[str, ...]]:
    """Suite, verdict, model, mean, mean before, difference and cost of each suite and model, as people read them."""
    return [row for end in night.ends for row in _rows(end)]


def _rows(end: SuiteEnd) -> list[tuple[str, ...]]:
    verdict = "not finished" if end.fault is not None else "met" if end.is_met else "not met"
    found = [
        (mean.model, score_words(mean.mean), score_words(mean.before), signed_words(mean.difference))
        for mean in end.means
    ]
    first, *more = found or [("–", "–", "–", "–")]
    return [(end.suite, verdict, *first, price_words(end.cost_usd)), *((end.suite, "", *row, "") for row in more)]


def _means(summary: RunSummary) -> list[SuiteMean]:
    figures = summary.comparison.figures if summary.comparison else ()
    before = {(row["model"], row["checkpoint"]): row for row in figures if row["scope"] == OVERALL}
    means = []
    for row in summary.scores:
        pair: Row = before.get((row["model"], row["checkpoint"]), {})
        means.append(SuiteMean(model_name(row), row["mean"], pair.get("mean_a"), pair.get("mean_diff")))
    return means


def _begun_run(request: EvaluationRequest, began_at: datetime) -> Row | None:
    """The run that a suite began, None where there is none; it may be published, where its report then failed."""
    lake = find_lake(request.lake, request.data)
    if not lake_exists(lake):
        return None
    values = {"dataset": request.dataset or request.outputs, "run_id": request.run_id, "began_at": began_at}
    with connect(lake, read_only=True) as connection:
        rows = read_rows(connection, query("operations/nightly_run"), **values)
    return rows[0] if rows else None


def _named(words: Sequence[str]) -> str:
    rest = len(words) - MOST_NAMED
    return ", ".join([*words[:MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])])
