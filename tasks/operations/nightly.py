"""Nightly run: its suites in turn, each with its outcome, the remaining budget, and the summary."""

import json
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import BudgetReached, GradebookError, InputError, LakeError, UnfinishedError
from gradebook.rubrics.statistics.release import Ship
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.rubrics.text.tables import table_of
from gradebook.rubrics.text.wording import counted, price_words, score_words, signed_words
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.stopping import stopped_words
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.judging.prices import total_usd
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import Upkeep, compact_lake
from gradebook.tasks.lake.connections import connect, lake_exists
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.operations.sentinel import Watch, watch_judge
from gradebook.tasks.operations.suites import Suite, SuitesFile, suite_request, suites_title, watch_request
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.published.verdict import weakest_words
from gradebook.tasks.reporting.rendering import escaped, table_text
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.resume_command import in_suites_file
from gradebook.tasks.stages.pipeline import publish_evaluation
from gradebook.tasks.stages.submit import Event, Stages
from gradebook.tasks.system.logs import LOGGER
from gradebook.tasks.system.secret_values import without_secret_values
from gradebook.tasks.workspace.folder import DEFAULT_LAKE, RunFolder, report_url

DRIFTED_EVENT = "gradebook.judge.drifted"
_ROUNDING_USD = 1e-9
_log = logging.getLogger(LOGGER)
MOST_NAMED = 5  # suites in the summary sentence
ALPHA = 0.05  # below which a difference of the outputs' means is beyond chance
LONGEST_FAULT = 300  # characters of a suite's fault in the summary sentence


@dataclass(frozen=True, slots=True)
class SuiteMean:
    """Mean of a model in a suite's run. before: mean of the baseline on the common cases; None without a baseline."""

    model: str
    mean: float | None
    before: float | None
    difference: float | None
    is_moved: bool | None = None  # whether the difference is beyond chance; None: unknown
    weakest: str | None = None  # the criterion with the lowest mean, and that mean


@dataclass(frozen=True, slots=True)
class SuiteEnd:
    """Outcome of one suite. run_id: None if no run was started; cost_usd: None if unknown.

    counted_usd: amount that the suite's own record counts toward the budget, with requests that may have been billed;
    None without a record.
    fault: why there is no published run; None if there is one. unmet: gates and rules that are not met. unchecked: why
    the rule against the baseline was not checked; None if it was, or there is none. watch: of the judge on the suite's
    anchors; None without anchors, or where watch_fault says why. stopped: how its run stopped early, if it did.
    has_requirement: whether a gate or a deciding rule was checked. is_refused: whether a setting is at fault, for
    which `gradebook evaluate` exits with 2. is_over_budget: whether the budget ended it. word: the verdict on its
    models in a word; None: as `is_met` says.
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
    counted_usd: float | None = None
    unchecked: str | None = None
    watch: Watch | None = None
    watch_fault: str | None = None
    stopped: str | None = None
    has_requirement: bool = True
    is_refused: bool = False
    is_over_budget: bool = False
    word: str | None = None

    @property
    def spent_usd(self) -> float | None:
        """Maximum cost of the suite, its anchors included; None if unknown."""
        costs = [usd for usd in (self.cost_usd, self.counted_usd) if usd is not None]
        return max(costs) + (self.watch_usd or 0.0) if costs else None

    @property
    def watch_usd(self) -> float | None:
        """Cost of the anchors; None if unknown."""
        return 0.0 if self.watch is None else self.watch.cost_usd

    @property
    def judge_words(self) -> str | None:
        """Sentence on the state of the judge by its anchors, and on whether judge or system changed."""
        if self.watch is None:
            return f"the judge was not watched: {self.watch_fault}" if self.watch_fault else None
        attribution = attribute([mean.is_moved for mean in self.means], is_judge_changed=self.watch.is_changed)
        return "; ".join(filter(None, (self.watch.sentence, *self.watch.notes, attribution)))


@dataclass(frozen=True, slots=True)
class Night:
    """Outcome of a nightly run. ends: of its suites, in order. upkeep: compaction of the lake, or upkeep_fault."""

    date: date
    ends: tuple[SuiteEnd, ...]
    budget_usd: float | None
    upkeep: Upkeep | None = None
    upkeep_fault: str | None = None

    @property
    def failed(self) -> tuple[SuiteEnd, ...]:
        """Suites without a published run."""
        return tuple(end for end in self.ends if end.fault is not None)

    @property
    def is_refused(self) -> bool:
        """Whether a setting of every suite is at fault, so that none is published."""
        return all(end.is_refused for end in self.ends)

    @property
    def to_mend(self) -> tuple[str, ...]:
        """Suites that fail again until their settings or their budget are changed."""
        return tuple(end.suite for end in self.failed if end.is_refused or end.is_over_budget)

    @property
    def unmet(self) -> tuple[SuiteEnd, ...]:
        """Published suites that do not meet a gate, a threshold or their rule."""
        return tuple(end for end in self.ends if end.fault is None and not end.is_met)

    @property
    def cost_usd(self) -> float | None:
        """Total cost of the suites; None if one is unknown."""
        return total_usd(cost for end in self.ends for cost in (end.cost_usd, end.watch_usd))

    @property
    def possible_usd(self) -> float:
        """Maximum cost, beyond `cost_usd`, of requests without a counted reply, as far as it is recorded."""
        return sum(max((end.counted_usd or 0.0) - (end.cost_usd or 0.0), 0.0) for end in self.ends)

    @property
    def sentence(self) -> str:
        """Summary of the nightly run, with the faults of the suites."""
        faults = (f"{end.suite} ({' '.join((end.fault or '').split())[:LONGEST_FAULT]})" for end in self.failed)
        return self._summary([*faults])

    @property
    def brief(self) -> str:
        """Summary of the nightly run with only the names of failed suites."""
        return self._summary([end.suite for end in self.failed])

    def _summary(self, failed: list[str]) -> str:
        published = len(self.ends) - len(self.failed)
        clauses = [f"{published} of {counted(len(self.ends), 'suite')} published"]
        if self.unmet:
            clauses.append(f"gates not met by {_first_names([end.suite for end in self.unmet])}")
        if failed:
            clauses.append(f"not finished: {_first_names(failed)}")
        return "; ".join(clauses)

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        counts = {"failed_count": len(self.failed), "unmet_count": len(self.unmet), "cost_usd": self.cost_usd}
        counts["possible_usd"] = self.possible_usd
        values = {"date": self.date.isoformat(), "sentence": self.sentence, "budget_usd": self.budget_usd, **counts}
        upkeep = self.upkeep.as_json() if self.upkeep else None
        return values | {
            "suites": [asdict(end) | {"judge": end.judge_words} for end in self.ends],
            "upkeep": upkeep,
            "upkeep_fault": self.upkeep_fault,
        }


class NightUnfinished(UnfinishedError):
    """At least one suite of a nightly run has no published run."""

    def __init__(self, night: Night) -> None:
        super().__init__(night)  # args == parameters, so it pickles

    @property
    def night(self) -> Night:
        """Outcome of the nightly run."""
        night: Night = self.args[0]
        return night

    def __str__(self) -> str:
        return f"{self.night.sentence}; a retry goes on with them, once their faults are mended"


def run_night(path: str, file: SuitesFile, chosen: Sequence[Suite], date: date | None, stages: Stages) -> Night:
    """Evaluate suites of a file in turn, each as a run of its own, then compact their lake.

    path: of the file, for the command that resumes a suite. date: value of {date}; None: that of the scheduled start.
    After a failed suite the others still run.
    """
    day = date or stages.today()
    night = _compact_after(Night(day, _evaluate_all(path, file, chosen, day, stages), file.budget_usd), file)
    stages.show_text(suites_title(path), "nightly", night_text(night), f"Nightly run of {day}")
    return night


def _evaluate_all(
    path: str, file: SuitesFile, chosen: Sequence[Suite], day: date, stages: Stages
) -> tuple[SuiteEnd, ...]:
    ended: list[tuple[SuiteEnd, EvaluationRequest]] = []
    for suite in chosen:
        left_usd = budget_left(file.budget_usd, ended)
        now = datetime.now(UTC)
        request = suite_request(suite, day, now, lake=file.lake, data=file.data, budget_usd=left_usd)
        again = ("gradebook", "suite", "nightly", path, "--only", suite.id, "--date", day.isoformat())
        request = replace(request, run_id=stages.run_id(suite.id), again=again)
        watch = _watch_suite(suite, request, now)
        if isinstance(watch, Watch):
            if watch.is_changed:
                stages.emit(_drift_event(watch))
            if request.budget_usd is not None:
                request = replace(request, budget_usd=max(request.budget_usd - (watch.cost_usd or 0.0), 0.0))
        ended.append((_add_watch(_evaluate(suite.id, request, now, stages), suite, watch), request))
    return tuple(end for end, _ in ended)


def _watch_suite(suite: Suite, request: EvaluationRequest, now: datetime) -> Watch | str | None:
    """Ask the suite's anchors; a fault is returned as text, because the suite is evaluated anyway."""
    watch = watch_request(suite, request)
    if watch is None:
        return None if suite.anchors is None else "the suite has no judge"
    try:
        return watch_judge(find_lake(request.lake, request.data), watch, now)
    except (GradebookError, duckdb.Error) as error:
        return str(error)


def _add_watch(end: SuiteEnd, suite: Suite, watch: Watch | str | None) -> SuiteEnd:
    if not isinstance(watch, Watch):
        return replace(end, watch_fault=watch)
    is_failing = suite.anchors is not None and suite.anchors.fail and watch.is_changed
    unmet = (*end.unmet, watch.sentence) if is_failing else end.unmet
    word = Ship.UNDECIDED.value if is_failing and end.is_met else end.word  # the judge changed since the baseline
    return replace(end, watch=watch, unmet=unmet, is_met=end.is_met and not is_failing, word=word)


def _drift_event(watch: Watch) -> Event:
    """Event of a judge that changed; its key depends on the night, the anchors and the judge alone."""
    first_row = watch.rows[0]
    key = ("gradebook judge", first_row["anchor_set"], first_row["judge_digest"], str(first_row["night"]))
    resource = {"prefect.resource.id": f"gradebook.judge.{first_row['judge']}"}
    return Event(DRIFTED_EVENT, resource, watch.as_json(), "\n".join(key))


def _evaluate(suite: str, request: EvaluationRequest, now: datetime, stages: Stages) -> SuiteEnd:
    """Publish one suite's run; a failure is returned, not raised."""
    try:
        summary = publish_evaluation(request, stages)
    except Exception as error:  # noqa: BLE001 - the other suites are evaluated anyway
        end = failed_end(suite, request, now, error)
        is_unexpected = not isinstance(error, GradebookError)
        _log.error("suite %s did not finish: %s", suite, end.fault, exc_info=is_unexpected)
        return end
    root = find_lake(request.lake, request.data).root
    return published_end(suite, summary, RunFolder.below(root, summary.run_id).report_file)


def _compact_after(night: Night, file: SuitesFile) -> Night:
    """Compact the lake and record the outcome; a failure is recorded and logged, but the night does not fail."""
    try:
        lake = find_lake(file.lake or DEFAULT_LAKE, file.data)
        return replace(night, upkeep=compact_lake(lake)) if lake_exists(lake) else night
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning("the lake could not be compacted: %r", error)
        return replace(night, upkeep_fault=f"{type(error).__name__}: {error}")


def budget_left(budget_usd: float | None, ends: Sequence[tuple[SuiteEnd, EvaluationRequest]]) -> float | None:
    """Remaining budget of the nightly run in US dollars; None without a budget.

    ends: finished suites with their requests. Requests that may have been billed count, as in each suite's own budget.
    A suite of unknown cost counts with its maximum spend.
    """
    if budget_usd is None:
        return None
    spent = 0.0
    for end, request in ends:
        most = budget_usd if request.budget_usd is None else request.budget_usd
        spent += most if end.spent_usd is None else end.spent_usd
    return max(0.0, budget_usd - spent)


def published_end(suite: str, summary: RunSummary, report: Path) -> SuiteEnd:
    """Outcome of a suite with a published run."""
    cost_usd, counted_usd = _run_costs(report.parent, summary.run["cost_usd"])
    return SuiteEnd(
        suite,
        summary.run_id,
        cost_usd,
        summary.is_met,
        summary.verdict.sentence,
        tuple(map(str, summary.unmet)),
        tuple(_suite_means(summary)),
        report_url(RunFolder(report.parent)),
        counted_usd=counted_usd,
        unchecked=_unchecked(summary),
        stopped=stopped_words(summary.run),
        has_requirement=summary.has_requirement,
        word=summary.verdict.word,
    )


def _unchecked(summary: RunSummary) -> str | None:
    settings = json.loads(summary.run.get("settings") or "{}")
    gate = gate_rule(settings.get("fail_if"), settings.get("require"))
    if gate is None or settings.get("baseline_run_id") is not None or settings.get("baseline_fault") is not None:
        return None
    return f"no earlier run to compare with, so {gate.option} was not checked"


def failed_end(suite: str, request: EvaluationRequest, began_at: datetime, error: Exception) -> SuiteEnd:
    """Outcome of a suite without a published run: the reason, and the cost so far."""
    unexpected = without_secret_values(f"unexpected {type(error).__name__}: {error}", os.environ)
    fault = in_suites_file(str(error)) if isinstance(error, GradebookError) else unexpected
    is_refused = isinstance(error, GradebookError) and error.exit_code == InputError.exit_code
    is_over = isinstance(error, BudgetReached)
    end = SuiteEnd(suite, request.run_id, None, fault=fault, is_refused=is_refused, is_over_budget=is_over)
    try:
        run = _begun_run(request, began_at)
    except (GradebookError, duckdb.Error):  # the lake itself may have failed
        return end
    if run is None:
        return replace(end, run_id=None, cost_usd=0.0)
    folder = find_lake(request.lake, request.data).root / "runs" / run["run_id"]
    cost_usd, counted_usd = _run_costs(folder, run["cost_usd"])
    return replace(end, run_id=run["run_id"], cost_usd=cost_usd, counted_usd=counted_usd)


def night_text(night: Night) -> str:
    """Nightly run in Markdown: a table of suites and models, then unmet gates and faults by suite."""
    headings = ("Suite", "Verdict", "Model"), ("Mean", "Lowest criterion", "Before", "Difference", "Cost")
    rows = [row for end in night.ends for row in _rows_of_suite(end)]
    lines = [str(escaped(night.sentence, 4_000)), "", str(table_text(table_of("Suites", *headings, rows))), ""]
    for end in night.ends:
        details = [f"run {escaped(end.run_id)}"] if end.run_id else []
        details += [f"[report]({end.report})"] if end.report else []
        sentences = (*end.unmet, *filter(None, (end.fault, end.stopped, end.unchecked, end.judge_words)))
        details += [str(escaped(sentence)) for sentence in sentences]
        lines.append(f"- **{escaped(end.suite)}**: {'; '.join(details)}")
    spent = price_words(night.cost_usd)
    lines += ["", f"Spent {spent}" + ("." if night.budget_usd is None else f" of {price_words(night.budget_usd)}.")]
    if night.possible_usd > _ROUNDING_USD:
        possible = price_words(night.possible_usd)
        lines[-1] += f" Requests without a counted reply may have cost {possible} more, at most."
    if upkeep := night.upkeep_fault or (night.upkeep and night.upkeep.sentence):
        lines += ["", str(escaped(f"Upkeep of the lake: {upkeep}"))]
    return "\n".join(lines) + "\n"


def attribute(outputs_moved: Sequence[bool | None], *, is_judge_changed: bool) -> str | None:
    """Sentence on whether judge or system changed since the baseline; None if the outputs can't be compared."""
    moves = [is_moved for is_moved in outputs_moved if is_moved is not None]
    if is_judge_changed:
        if any(moves):
            return "the outputs' scores moved as well, so what the system did is unknown until the judge is the same"
        return "the outputs' scores did not move beyond chance" if moves else None
    if not moves:
        return None
    if any(moves):
        return "the outputs' scores moved and the anchors' did not: the system changed"
    return "neither the outputs' scores nor the anchors' moved beyond chance"


def suite_rows(night: Night) -> list[tuple[str, ...]]:
    """Formatted rows for each suite and model.

    Cells: suite, verdict, model, mean, lowest criterion, mean before, difference, cost.
    """
    return [row for end in night.ends for row in _rows_of_suite(end)]


def _rows_of_suite(end: SuiteEnd) -> list[tuple[str, ...]]:
    verdict = "not finished" if end.fault is not None else end.word or _verdict_word(end)
    model_rows = [
        (
            mean.model,
            score_words(mean.mean),
            mean.weakest or "–",
            score_words(mean.before),
            signed_words(mean.difference),
        )
        for mean in end.means
    ]
    first, *more = model_rows or [("–", "–", "–", "–", "–")]
    return [(end.suite, verdict, *first, price_words(end.cost_usd)), *((end.suite, "", *row, "") for row in more)]


def _verdict_word(end: SuiteEnd) -> str:
    met = Ship.MAY if end.has_requirement else Ship.NO_GATE
    return (met if end.is_met else Ship.MAY_NOT).value


def _suite_means(summary: RunSummary) -> list[SuiteMean]:
    figures = summary.comparison.figures if summary.comparison else ()
    before = {(row["model"], row["checkpoint"]): row for row in figures if row["scope"] == OVERALL}
    means = []
    for row in summary.scores:
        pair: Row = before.get((row["model"], row["checkpoint"]), {})
        p = pair.get("p")
        is_moved = None if p is None else p < ALPHA
        name = model_name(row)
        weakest = weakest_words(summary.criteria, name)
        means.append(SuiteMean(name, row["mean"], pair.get("mean_a"), pair.get("mean_diff"), is_moved, weakest))
    return means


def _begun_run(request: EvaluationRequest, began_at: datetime) -> Row | None:
    """Run that a suite started; None if there is none. The run may be published, if only its report failed."""
    lake = find_lake(request.lake, request.data)
    if not lake_exists(lake):
        return None
    values = {"dataset": request.dataset or request.outputs, "run_id": request.run_id, "began_at": began_at}
    with connect(lake, read_only=True) as connection:
        rows = read_rows(connection, query("operations/nightly_run"), **values)
    return rows[0] if rows else None


def _run_costs(folder: Path, cost_usd: float | None) -> tuple[float | None, float | None]:
    """A run's cost by the ledger and by the record of its budget; unknown if the record is broken."""
    record = RunFolder(folder).budget_file
    try:
        counted_usd = math.fsum(read_budget(record).values()) if record.exists() else None
    except LakeError:
        return None, None
    return cost_usd, counted_usd


def _first_names(names: Sequence[str]) -> str:
    more_count = len(names) - MOST_NAMED
    return ", ".join([*names[:MOST_NAMED], *([f"{more_count} more"] if more_count > 0 else [])])
