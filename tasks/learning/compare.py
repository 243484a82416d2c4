"""Candidates for a judge (rubric files, judges, panels, cascades, past runs) by agreement and price."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.improvement import Change, kappa_change, kappa_interval, with_missing_as_worst
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.mart import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.learning.candidates import CandidateJudge, refuse_unaskable
from gradebook.tasks.learning.rated import RatedOutputs, read_rated
from gradebook.tasks.published.stored_run import StoredRun, read_stored_run
from gradebook.tasks.rubric_store.versions import find_rubric

LEAST_OUTPUTS = 20  # fewest rated outputs in common
MARGIN = 0.05  # difference of kappa
Chosen = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FrontierRequest:
    """Candidates to compare. run_ids: the first run's rated outputs count; the other runs have verdicts on them.

    rubrics, judges: each rubric is judged by each judge on these outputs; empty: the run's own. margin: of kappa.
    """

    run_ids: tuple[str, ...]
    rubrics: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    criterion: str | None = None
    margin: float = MARGIN
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """A candidate on one criterion. kappa: with people, with its interval. usd_per_1000: outputs; None: unknown.

    behind: paired difference from the candidate that agrees most. is_on_frontier: no cheaper candidate agrees as well.
    is_chosen: the cheapest candidate that is not worse than the best by the margin.
    """

    criterion_id: str
    name: str
    n: int
    kappa: float | None
    low: float | None
    high: float | None
    bias: float
    usd_per_1000: float | None
    behind: Change | None
    is_on_frontier: bool = False
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Frontier:
    """Candidates by criterion, highest agreement first. notes: sentences on what the figures do not show."""

    rows: tuple[FrontierRow, ...]
    margin: float
    spent_usd: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"candidates": rows, "margin": self.margin, "spent_usd": self.spent_usd, "notes": [*self.notes]}


@dataclass(frozen=True, slots=True)
class _Scored:
    """Scores of one candidate over the rated outputs, NaN where unscored, and its mean price."""

    name: str
    scores: Floats
    usd: float | None


def compare_candidates(lake: Lake, request: FrontierRequest) -> Frontier:
    """Compare candidates on the rated outputs of a run; asks only questions that the ledger does not answer.

    Raises `InputError` for an unknown run, rubric or criterion, and without rated outputs in common.
    """
    if not 0 <= request.margin < 1:
        raise InputError("--margin", f"{request.margin:g}", "0 or more, below 1, of kappa")
    rubrics = {name: find_rubric(name, lake) for name in request.rubrics}
    judges = {name: read_judge(name, os.environ) for name in request.judges}
    for judge in judges.values():
        refuse_unaskable(judge)
    with connect_up_to_date(lake) as connection:
        runs = [
            read_stored_run(connection, lake, str(find_run(connection, lake, run_id, None)["run_id"]))
            for run_id in dict.fromkeys(request.run_ids)
        ]
        refuse_unknown(connection, runs[0].run_id, request.criterion)
        add_ratings_of_run(connection, runs[0].run_id)
        add_decisions_of_run(connection)
        rated = [
            read_rated(connection, runs[0], criterion)
            for criterion in runs[0].rubric.judged_criteria
            if request.criterion in (None, criterion.id)
        ]
        stored_candidates = {outputs.criterion.id: [*_stored(connection, runs, outputs)] for outputs in rated}
    if rubrics and not judges:
        name = str(runs[0].row["judge"])
        judges = {name: read_judge(name, os.environ)}
        refuse_unaskable(judges[name])
    asked_candidates = _Asked(lake, runs[0], rubrics, judges, request.budget_usd)
    rows: list[FrontierRow] = []
    for outputs in rated:
        if len(outputs.rows) >= LEAST_OUTPUTS:
            rows += _frontier(
                outputs,
                [*stored_candidates[outputs.criterion.id], *asked_candidates.scored(outputs)],
                asked_candidates.left_out(outputs),
                request.margin,
            )
    if not rows and (rubrics or judges):
        most = max((len(outputs.rows) for outputs in rated), default=0)
        hint = f"`gradebook people rate {runs[0].run_id} --n 50` collects ratings"
        raise InputError(f"run {runs[0].run_id}", counted(most, "rated output"), f"{LEAST_OUTPUTS} or more", hint)
    return Frontier(
        tuple(rows), request.margin, asked_candidates.spent_usd, tuple(dict.fromkeys(asked_candidates.notes))
    )


def _stored(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun], rated: RatedOutputs) -> Iterator[_Scored]:
    """Candidates that are past runs: their verdicts on the rated outputs."""
    names = [output.output_id for output in rated.outputs]
    for run in runs:
        select = "select output_id, score from verdicts where run_id = ? and criterion_id = ? and status = 'scored'"
        scores = {
            row["output_id"]: row["score"] for row in read_rows(connection, select, run.run_id, rated.criterion.id)
        }
        keys = read_rows(
            connection,
            query("learning/run_keys"),
            run_id=run.run_id,
            criterion_id=rated.criterion.id,
            output_ids=names,
        )
        (costs,) = read_rows(
            connection, query("learning/reply_costs"), asked_by="", keys=[row["request_key"] for row in keys]
        )
        values = np.array([scores.get(name, np.nan) for name in names], dtype=np.float64)
        judged_count = int((~np.isnan(values)).sum())
        usd = costs["usd"] / judged_count if judged_count and costs["usd"] else None
        yield _Scored(f"{run.row['judge']}, {run.name} (run {run.run_id})", values, usd)


class _Asked:
    """Candidates that are asked now: each rubric by each judge, within one budget."""

    def __init__(
        self,
        lake: Lake,
        run: StoredRun,
        rubrics: Mapping[str, Rubric],
        judges: Mapping[str, Judge],
        budget_usd: float | None,
    ) -> None:
        """rubrics, judges: by their names in the command."""
        self.spent_usd, self.notes = 0.0, list[str]()
        self._lake, self._run, self._budget_usd = lake, run, budget_usd
        self._rubrics, self._judges = rubrics or ({run.name: run.rubric} if judges else {}), judges

    def left_out(self, rated: RatedOutputs) -> Chosen:
        """Mask of outputs whose case is an example of a candidate, which would grade itself."""
        cases = {
            example.case_id
            for rubric in (*self._rubrics.values(), self._run.rubric)
            for criterion in rubric.judged_criteria
            if criterion.id == rated.criterion.id
            for example in getattr(criterion.method, "examples", ())
        }
        is_example = np.array([row["case_id"] in cases for row in rated.rows], dtype=np.bool_)
        if is_example.any():
            outputs = counted(int(is_example.sum()), "output")
            self.notes.append(f"{rated.criterion.id}: left out {outputs} of cases that are examples of a candidate")
        return is_example

    def scored(self, rated: RatedOutputs) -> Iterator[_Scored]:
        """Scores of the rated outputs by each candidate."""
        is_example = self.left_out(rated)
        outputs = [output for output, is_own in zip(rated.outputs, is_example.tolist(), strict=True) if not is_own]
        for rubric_name, rubric in self._rubrics.items():
            criterion = self._criterion(rubric, rated.criterion)
            for judge_name, judge in self._judges.items():
                left_usd = None if self._budget_usd is None else max(self._budget_usd - self.spent_usd, 0.0)
                asking = CandidateJudge(self._lake, judge, rubric, left_usd)
                scores = np.full(len(rated.rows), np.nan)
                try:
                    scores[~is_example] = asking.scores(criterion, outputs)
                finally:
                    self.spent_usd += asking.spent_usd
                yield _Scored(f"{judge_name}, {rubric_name}", scores, asking.price(criterion, len(outputs)))
            if rubric.metadata.get("improved", {}).get(criterion.id, {}).get("run") == self._run.run_id:
                self.notes.append(
                    f"{criterion.id} of {rubric.id} {rubric.version} was searched in these ratings: its kappa here is "
                    "too good, and that of `judge improve` is not"
                )

    def _criterion(self, rubric: Rubric, rated: Criterion) -> Criterion:
        """Criterion with this id in a candidate's rubric. Raises `InputError` if it asks people another question."""
        criterion = next(
            (
                candidate_criterion
                for candidate_criterion in rubric.judged_criteria
                if candidate_criterion.id == rated.id
            ),
            None,
        )
        if criterion is None:
            raise InputError("--rubric", f"{rubric.id} {rubric.version} without the judged criterion {rated.id}", "it")
        scores = [
            [(level.id, level.score) for level in candidate_criterion.ranked_levels]
            for candidate_criterion in (criterion, rated)
        ]
        if scores[0] != scores[1]:
            raise InputError(
                "--rubric", f"other levels of {rated.id} in {rubric.id} {rubric.version}", "those that people rated"
            )
        if question_digest(criterion) != question_digest(rated):
            self.notes.append(f"{rated.id} of {rubric.id} {rubric.version}: people rated another wording of it")
        return criterion


def _frontier(
    rated: RatedOutputs, candidates: Sequence[_Scored], is_left_out: Chosen, margin: float
) -> Iterator[FrontierRow]:
    """Rows of one criterion, highest agreement first. A missing score counts as the worst."""
    is_used = ~is_left_out
    people, clusters = rated.people[is_used], np.unique(rated.clusters[is_used], return_inverse=True)[1].ravel()
    scores = {candidate.name: with_missing_as_worst(candidate.scores[is_used], people) for candidate in candidates}
    prices = {candidate.name: None if candidate.usd is None else 1_000 * candidate.usd for candidate in candidates}
    rows = []
    for name, judged in scores.items():
        kappa, interval = kappa_interval(judged, people, clusters)
        rows.append((name, kappa, interval, float((judged - people).mean())))
    rows.sort(key=lambda row: (-(row[1] if row[1] is not None else -2.0), prices[row[0]] or 0.0))
    best = rows[0][0]
    behind = {name: kappa_change(scores[best], judged, people, clusters) for name, judged in scores.items()}
    not_worse = [name for name in scores if name == best or _is_close(behind[name], margin)]
    priced = [name for name in not_worse if prices[name] is not None]
    cheapest = min(priced, key=lambda name: prices[name] or 0.0) if priced else None
    least_usd: float | None = None
    for name, kappa, interval, bias in rows:
        usd = prices[name]
        is_on_frontier = usd is not None and (least_usd is None or usd < least_usd)
        least_usd = usd if is_on_frontier else least_usd
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        yield FrontierRow(
            rated.criterion.id,
            name,
            people.size,
            kappa,
            low,
            high,
            bias,
            usd,
            None if name == best else behind[name],
            is_on_frontier,
            name == cheapest,
        )


def _is_close(behind: Change, margin: float) -> bool:
    """Whether a candidate is not worse than the best by the margin, beyond chance; one with the same scores is not."""
    return behind.changed_count == 0 or (behind.low is not None and behind.low > -margin)
