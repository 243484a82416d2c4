"""Calibration of a judge: its mean scores corrected by people's ratings of some outputs.

A sample is the judge's scores and people's ratings of a criterion, model and checkpoint.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.agreement import MOST_LEVELS
from gradebook.rubrics.statistics.calibration import (
    LEAST_RATED,
    MOST_SHIFT,
    Estimate,
    Rated,
    corrected_mean,
    fold_weights,
    judge_weight,
    naive_mean,
    rated_mean,
    ratings_to_halve,
    selection_shift,
    suspicious_shift,
)
from gradebook.rubrics.statistics.doubt_sampling import LEAST_DRAWN, Drawn, drawn_mean, inclusion_rates
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.rating_estimates import post_stratified_mean, rate_next, rogan_gladen_mean
from gradebook.rubrics.statistics.reasons import Reason
from gradebook.rubrics.text.reasons import asdict_in_words, reason_words
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.mart import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown, uneven_words, unrated_note
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, make_table, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.offered import offered_note
from gradebook.tasks.ratings.rating_queue import draw_by_doubt, page_source

_ELSEWHERE_COLUMNS = "criterion_id varchar, output_id varchar, score double"
_LEVELS = "select score from agreed_levels where criterion_id = ? order by score"
_CHOSEN = {
    "uncertain": "uncertain",
    "disputed": "disputed",
    "gates": "gate-failing",
    "weak": "weak",
    "gold": "gold",
}  # rule of the rating page that chose an output -> clause

_REACHED = """
select distinct output_id from agreed_ratings
where (selection = 'gold' or selection = 'uncertain' and inclusion_rate is not null) and source = ?
"""
_WEIGHTED = "select 1 from runs where run_id = ? and (settings ->> '$.stratify') is not null"
_UNWEIGHTED = "the run's cases were drawn by stratum: its means are weighted, these are not"

Group = tuple[str, str, str | None]  # criterion, model, checkpoint


@dataclass(frozen=True, slots=True)
class Judged:
    """Outputs that the judge scored: one row per output and criterion, sorted by criterion, model and checkpoint.

    table: criterion_id, model, checkpoint, case_id, shared (cluster or case), sample_index, output_id, score,
    rating (null if unrated), is_drawn, doubt_rating, gold_count. doubt_rates: by output, the probability of being
    drawn by the judge's doubt, up to the first unrated output; drawn_ids: outputs drawn by doubt; empty if none.
    unjudged: number of outputs that people score in place of the judge. left_out: number of
    ratings of outputs that a rule chose for rating, by the rule.
    """

    table: pa.Table
    unjudged: dict[Group, int]
    left_out: dict[Group, dict[str, int]]
    is_weighted: bool = False  # whether the run's means are weighted by stratum; the means here are not
    weighting_note: str | None = None  # sentence on the weights of the run's means
    doubt_rates: Mapping[str, float] = field(default_factory=dict)
    drawn_ids: Collection[str] = frozenset()

    def where(self, is_chosen: pa.ChunkedArray) -> "Judged":
        """Rows with a true is_chosen, (row,)."""
        return replace(self, table=self.table.filter(is_chosen).combine_chunks())

    @property
    def unjudged_words(self) -> str | None:
        """Explanation of `unjudged` for the whole run."""
        if not self.unjudged:
            return None
        return (
            f"people score {counted(sum(self.unjudged.values()), 'verdict')} in the judge's place (prefer: human): "
            "evaluate the outputs with a rubric without `prefer` too, and the judge's scores there count"
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One model and checkpoint on one criterion, with at least one rating.

    levels: scores of the criterion's levels, ascending. selection: evidence that the rated outputs are not a random
    sample, from the judge's scores or from outputs without a score; None without evidence. excused_count: outputs of
    the random sample without a score by people: the criterion does not apply, or the rating was retracted. left_out:
    which ratings are not in the sample because a rule chose their outputs; None if there are none. note: why its
    estimates may be biased. chosen_count: ratings of outputs that a rule chose. drawn: all outputs, with the ratings of
    the random sample and of outputs drawn by the judge's doubt; None if doubt drew none, or too few.
    """

    criterion_id: str
    model: str
    checkpoint: str | None
    rated: Rated
    levels: tuple[float, ...]
    selection: str | None
    left_out: str | None
    note: str | None
    excused_count: int = 0
    chosen_count: int = 0
    drawn: Drawn | None = None

    @property
    def two_levels(self) -> tuple[float, float] | None:
        """Scores of both levels if the criterion has exactly two; else None."""
        return (self.levels[0], self.levels[1]) if len(self.levels) == 2 and self.levels[0] < self.levels[1] else None


def read_judged(connection: duckdb.DuckDBPyConnection, run_id: str, criteria: Sequence[str] | None = None) -> Judged:
    """Read the judge's scores of a published run, and all ratings of the run's outputs that exist now.

    connection: to the lake; gets the tables of `tasks.agreement.mart`. criteria: these criteria, which may be a
    check's too; None: the judge's criteria.
    """
    add_ratings_of_run(connection, run_id)
    add_decisions_of_run(connection)
    make_table(connection, "agreement/preferred", run_id=run_id)
    connection.execute(f"create or replace temp table scores_elsewhere ({_ELSEWHERE_COLUMNS})")
    if connection.execute("select 1 from preferred limit 1").fetchall():
        make_table(connection, "agreement/questions_alike", run_id=run_id)
        connection.execute(f"insert into scores_elsewhere {query('agreement/scores_elsewhere')}")
    parameters = {"run_id": run_id, "criteria": None if criteria is None else list(criteria)}
    page_parameters = parameters | {"page_source": page_source(run_id)}
    table = (
        connection.execute(query("agreement/calibration_samples"), page_parameters).to_arrow_table().combine_chunks()
    )
    unjudged = connection.execute(query("agreement/unjudged_counts"), parameters).fetchall()
    left_out: dict[Group, dict[str, int]] = {}
    drawn_count = 0
    for *group, selection, count, of_doubt in connection.execute(
        query("agreement/left_out_counts"), parameters
    ).fetchall():
        criterion, model, checkpoint = group
        left_out.setdefault((criterion, model, checkpoint), {})[selection] = count
        drawn_count += of_doubt
    is_weighted = bool(connection.execute(_WEIGHTED, [run_id]).fetchall())
    weighting_notes = (_UNWEIGHTED if is_weighted else None, uneven_words(connection, run_id))
    return Judged(
        table,
        {(criterion, model, checkpoint): count for criterion, model, checkpoint, count in unjudged},
        left_out,
        is_weighted,
        "; ".join(filter(None, weighting_notes)) or None,
        *(_read_doubt_draw(connection, run_id) if drawn_count else ()),
    )


def _read_doubt_draw(connection: duckdb.DuckDBPyConnection, run_id: str) -> tuple[dict[str, float], frozenset[str]]:
    """Probability of each output to be drawn by the queue `uncertain`, and the ids of the drawn outputs.

    Both end before the first output without an answer. Gold outputs count too. "Does not apply" is an answer.
    """
    draw = draw_by_doubt(connection, run_id)
    reached = {name for (name,) in connection.execute(_REACHED, [page_source(run_id)]).fetchall()}
    is_reached = np.array([output_id in reached for output_id in draw.output_ids])
    rates, is_drawn = inclusion_rates(draw.keys, draw.weights, is_reached)
    drawn_ids = frozenset(itertools.compress(draw.output_ids, is_drawn))
    return dict(zip(draw.output_ids, rates.tolist(), strict=True)), drawn_ids


def samples_of(
    connection: duckdb.DuckDBPyConnection, judged: Judged, codes: Mapping[str, int] | None = None
) -> Iterator[Sample]:
    """Samples for each criterion, model and checkpoint with at least one rating.

    codes: case number by `shared`; None: each sample has its own numbers, or none if no case has several outputs.
    """
    for positions in _slices(judged.table, ("criterion_id", "model", "checkpoint")):
        rows = judged.table.slice(positions.start, len(positions))
        criterion_id, model, checkpoint = (rows.column(name)[0].as_py() for name in rows.column_names[:3])
        left_out = judged.left_out.get((criterion_id, model, checkpoint))
        if rows.column("rating").null_count == rows.num_rows and left_out is None:
            continue
        levels = tuple(row[0] for row in connection.execute(_LEVELS, [criterion_id]).fetchall())
        rated = _rated(rows, codes)
        unjudged = _unjudged_note(judged.unjudged.get((criterion_id, model, checkpoint), 0))
        note = "; ".join(filter(None, (unjudged, judged.weighting_note))) or None
        is_drawn, is_rated = rows.column("is_drawn"), pc.is_valid(rows.column("rating"))
        excused_count = pc.sum(pc.and_not(is_drawn, is_rated)).as_py() or 0
        # A sample that was drawn at random needs stronger evidence.
        bound = MOST_SHIFT if pc.all(pc.filter(is_drawn, is_rated)).as_py() else suspicious_shift(rated)
        selection = _excused_note(excused_count, rated.n) or _selection_note(rated, bound)
        doubt_sample, unanswered_count = _drawn(rows, judged.doubt_rates, judged.drawn_ids)
        drawn_count = 0 if doubt_sample is None else int((~np.isnan(doubt_sample.ratings)).sum())
        if drawn_count < LEAST_DRAWN and rated.n >= LEAST_RATED:
            doubt_sample, unanswered_count = None, 0  # too few for a mean of their own: use only the random sample
        if unanswered_count:
            excused_count += unanswered_count
            selection = _excused_note(excused_count, max(rated.n, drawn_count))
        selection = selection if rated.n or unanswered_count else None
        if selection is not None:
            doubt_sample = None
        chosen_count = sum((left_out or {}).values())
        if doubt_sample is not None:
            left_out = _not_drawn(left_out or {}, rows, judged.drawn_ids)
            note = "; ".join(filter(None, (_drawn_note(drawn_count, rated.n), note)))
        left_out_words = _left_out_words(left_out, rated.n)
        group = criterion_id, model, checkpoint
        yield Sample(*group, rated, levels, selection, left_out_words, note, excused_count, chosen_count, doubt_sample)


def rated_failures(
    connection: duckdb.DuckDBPyConnection, run_id: str, marks: Mapping[str, float | None]
) -> dict[tuple[str, str], Rated]:
    """Failures by judge and people, by (model with checkpoint, criterion); 1 where an output fails.

    marks: criterion -> least passing score; None: the best level's score, less a tolerance for the judge's mean.
    Only random samples with at least one rating; empty for a run whose cases were drawn by stratum.
    """
    judged = read_judged(connection, run_id, list(marks))
    if judged.is_weighted or not judged.table.num_rows:
        return {}
    least_by_criterion = {name: _least_pass(connection, name, mark) for name, mark in marks.items()}
    least = np.array([least_by_criterion[name] for name in judged.table.column("criterion_id").to_pylist()])
    table = judged.table
    for name in ("score", "rating"):
        scores = table.column(name).to_numpy()
        fails = np.where(np.isnan(scores), np.nan, (scores < least).astype(np.float64))
        fails_column = pa.array(fails, from_pandas=True)
        table = table.set_column(table.column_names.index(name), name, fails_column)
    samples = samples_of(connection, replace(judged, table=table))
    return {
        (model_name({"model": sample.model, "checkpoint": sample.checkpoint}), sample.criterion_id): sample.rated
        for sample in samples
        if sample.rated.n and sample.selection is None
    }


def _least_pass(connection: duckdb.DuckDBPyConnection, criterion_id: str, mark: float | None) -> float:
    """Least score that passes; without a mark the middle between the best level and the next."""
    levels = [row[0] for row in connection.execute(_LEVELS, [criterion_id]).fetchall()]
    if mark is not None or len(levels) < 2:
        return (1.0 if mark is None else mark) - TIED
    return (float(levels[-1]) + float(levels[-2])) / 2.0 + TIED


def _rated(rows: pa.Table, codes: Mapping[str, int] | None) -> Rated:
    ratings, scores = (rows.column(name).to_numpy() for name in ("rating", "score"))
    cases = rows.column("shared").combine_chunks().dictionary_encode().indices.to_numpy()
    if codes is not None:
        cases = np.array([codes[name] for name in rows.column("shared").to_pylist()], dtype=np.int64)
    is_rated = ~np.isnan(ratings)
    has_clusters = codes is not None or np.unique(cases).size < cases.size
    return Rated(
        ratings[is_rated],
        scores[is_rated],
        scores[~is_rated],
        cases[is_rated] if has_clusters else None,
        cases[~is_rated] if has_clusters else None,
    )


def _drawn(rows: pa.Table, rates: Mapping[str, float], drawn_ids: Collection[str]) -> tuple[Drawn | None, int]:
    """Outputs with the ratings of both samples, and the count of outputs drawn by doubt that have no rating.

    An output may be in both samples, which are independent; its probability is that of being in at least one.
    """
    ratings, by_doubt, scores = (rows.column(name).to_numpy() for name in ("rating", "doubt_rating", "score"))
    output_ids = rows.column("output_id").to_pylist()
    doubt_rates = np.array([rates.get(output_id, 0.0) for output_id in output_ids])
    is_drawn, is_rated = np.array([output_id in drawn_ids for output_id in output_ids]), ~np.isnan(ratings)
    if not (is_drawn & ~np.isnan(by_doubt)).any():
        return None, 0
    every = np.where(is_rated, ratings, np.where(is_drawn, by_doubt, np.nan))
    inclusion_probabilities = 1.0 - (1.0 - doubt_rates) * (1.0 - is_rated.mean())
    cases = rows.column("shared").combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return Drawn(scores, every, inclusion_probabilities, cases), int((is_drawn & np.isnan(every)).sum())


def _not_drawn(left_out: Mapping[str, int], rows: pa.Table, drawn_ids: Collection[str]) -> dict[str, int]:
    """Counts of ratings that are still excluded, by rule; ratings of outputs drawn by the judge's doubt are not."""
    counts = zip(rows.column("output_id").to_pylist(), rows.column("gold_count").to_pylist(), strict=True)
    drawn_gold_count = sum(count or 0 for output_id, count in counts if output_id in drawn_ids)
    remaining = {**left_out, "uncertain": 0, "gold": left_out.get("gold", 0) - drawn_gold_count}
    return {name: remaining[name] for name in left_out if remaining[name]}


def _drawn_note(drawn_count: int, sample_count: int) -> str:
    return (
        f"{counted(drawn_count, 'rated output')}, {drawn_count - sample_count:,} of them drawn by the judge's doubt: "
        "each rating counts by the inverse of its probability"
    )


def _unjudged_note(count: int) -> str | None:
    if not count:
        return None
    outputs = f"{counted(count, 'output')} that people score in the judge's place"
    return f"these means are without {outputs} (prefer: human), which the judge did not score"


def _left_out_words(counts: dict[str, int] | None, n: int) -> str | None:
    if not counts:
        return None
    ratings = counted(sum(counts.values()), "rating")
    selections = " and ".join(_CHOSEN[selection] for selection in counts)
    return f"left out: {ratings} of {selections} outputs, which a rule chose; {counted(n, 'rated output')} of a sample"


def _excused_note(excused_count: int, rated_count: int) -> str | None:
    if not excused_count:
        return None
    outputs = counted(excused_count + rated_count, "output")
    return (
        f"people gave {excused_count:,} of {outputs} of the random sample no score, as the criterion does not apply or "
        "they took it back: what such outputs are worth is unknown, and the others are not a random sample"
    )


def _selection_note(rated: Rated, bound: float) -> str | None:
    shift = selection_shift(rated)
    if shift is None or abs(shift) <= bound:
        return None
    return (
        f"the rated outputs are not a random sample: the judge gave them {rated.judged.mean():.3f} on average, "
        f"the others {rated.unrated.mean():.3f}, {abs(shift):.1f} standard errors apart"
    )


def _slices(table: pa.Table, keys: tuple[str, ...]) -> Iterator[range]:
    """Ranges of consecutive rows with equal keys, in a table sorted by them."""
    if not table.num_rows:
        return
    is_new: NDArray[np.bool_] = np.zeros(table.num_rows, dtype=np.bool_)
    is_new[0] = True
    for key in keys:
        codes = table.column(key).combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        is_new[1:] |= np.diff(codes) != 0
    starts = [*np.flatnonzero(is_new).tolist(), table.num_rows]
    yield from (range(start, stop) for start, stop in itertools.pairwise(starts))


MOST_NEXT = 10_000
_BY_DOUBT = "the judge's doubt drew outputs: how much further ratings narrow the interval is not known"
_NOT_RANDOM = "the rated outputs are not a random sample"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Mean of one model and checkpoint on one criterion, by four estimators; all scores in 0..1.

    n: rated outputs that the judge scored; unrated_count: its other scored outputs. corrected: PPI++; if the rated
    outputs are not a random sample, weighted by the judge's scores, or None. weight: of the judge's scores in PPI++,
    0..1. more_count: further ratings needed to halve its interval; more_reason: why it is None. note: why the estimates
    may be biased. is_random: False if the judge scored the rated outputs differently from the others; a
    difference from the corrected mean is then no finding. chosen_count: ratings of outputs that a rule chose.
    """

    criterion_id: str
    model: str
    checkpoint: str | None
    n: int
    unrated_count: int
    naive: Estimate
    rated: Estimate
    corrected: Estimate
    rogan_gladen: Estimate
    weight: float
    more_count: int | None
    more_reason: Reason | str | None
    note: str | None
    is_random: bool = True
    chosen_count: int = 0

    @property
    def name(self) -> str:
        """Model with its checkpoint."""
        return model_name({"model": self.model, "checkpoint": self.checkpoint})


@dataclass(frozen=True, slots=True)
class RunCalibration:
    """Calibrated means of a run, and the outputs to rate next, most useful first. note: why there are none."""

    run: Row
    rows: tuple[Calibration, ...]
    next_outputs: tuple[Row, ...]
    note: str | None

    @property
    def more_count(self) -> int:
        """Count of outputs to rate on all criteria, summed over models, that halves every interval where possible."""
        most: dict[str, int] = {}
        for row in self.rows:
            most[row.name] = max(most.get(row.name, 0), row.more_count or 0)
        return sum(most.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "calibration": [asdict_in_words(row) for row in self.rows],
            "more_count": self.more_count,
            "rate_next": list(self.next_outputs),
            "note": self.note,
        }


def calibrated_means(
    connection: duckdb.DuckDBPyConnection, run_id: str, criteria: Sequence[str]
) -> tuple[Calibration, ...]:
    """Means of each criterion, model and checkpoint by all four estimators, from the current ratings.

    connection: to a lake with the published run.
    """
    judged = read_judged(connection, run_id, criteria)
    return tuple(_calibrate(sample) for sample in samples_of(connection, judged))


def corrected_row(means: Calibration) -> Row:
    """Flat row with the judge's mean and the corrected mean. note: why the corrected mean is None or may be biased.

    n: rated outputs.
    """
    return {
        "criterion_id": means.criterion_id,
        "model": means.model,
        "checkpoint": means.checkpoint,
        "n": means.n,
        "output_count": means.n + means.unrated_count,
        "naive_mean": means.naive.value,
        "corrected_mean": means.corrected.value,
        "ci_low": means.corrected.ci_low,
        "ci_high": means.corrected.ci_high,
        "note": "; ".join(filter(None, (reason_words(means.corrected.reason), means.note))) or None,
    }


def calibrate_run(
    lake: Lake, run_id: str, *, criterion_id: str | None = None, next_count: int = 0, is_passed_on: bool = False
) -> RunCalibration:
    """Calibrate the judge's means of a published run by all current ratings.

    criterion_id: only this criterion, which may be a check's; None: all criteria of the judge. next_count: number of
    outputs to suggest for rating, 0 to `MOST_NEXT`. is_passed_on: others read the note, as of `Lake.words`. Raises
    `InputError` for an unknown run or criterion.
    """
    if not 0 <= next_count <= MOST_NEXT:
        raise InputError("--rate-next", f"{next_count}", f"0 to {MOST_NEXT:,}")
    lake_words = lake.words(is_passed_on=is_passed_on)
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, None)
        refuse_unknown(connection, run_id, criterion_id)
        judged = read_judged(connection, run_id, None if criterion_id is None else [criterion_id])
        rows = tuple(_calibrate(sample) for sample in samples_of(connection, judged))
        offered = offered_note(connection, run_id, lake_words)
    why_none = None if rows else _missing_reason(judged, unrated_note(run_id, lake_words, what="what the judge scored"))
    note = "; ".join(filter(None, (why_none, offered))) or None
    return RunCalibration(run, rows, _next_outputs(judged.table, next_count), note)


def _calibrate(sample: Sample) -> Calibration:
    rated, two_levels = sample.rated, sample.two_levels
    weight = judge_weight(rated)
    if sample.selection is None:
        levels = sample.levels if 1 < len(sample.levels) <= MOST_LEVELS else None
        corrected, mean_of_rated = corrected_mean(rated, levels, fold_weights(rated)), rated_mean(rated, levels)
        rogan_gladen = (
            rogan_gladen_mean(rated, two_levels)
            if two_levels
            else Estimate(None, None, None, f"it is of two levels, found {len(sample.levels)}")
        )
        more_count, more_reason = ratings_to_halve(rated, corrected, weight)
        if sample.drawn is not None:
            corrected = drawn_mean(sample.drawn)
            more_count, more_reason = None, _BY_DOUBT
    else:
        # The judge's scores do not predict which outputs get no score from people.
        corrected = Estimate(None, None, None, None) if sample.excused_count else post_stratified_mean(rated)
        mean_of_rated = Estimate(float(rated.ratings.mean()), None, None, _NOT_RANDOM)
        rogan_gladen = Estimate(None, None, None, _NOT_RANDOM)
        more_count, more_reason = None, _NOT_RANDOM
    rated_count = rated.n if sample.drawn is None else int((~np.isnan(sample.drawn.ratings)).sum())
    return Calibration(
        criterion_id=sample.criterion_id,
        model=sample.model,
        checkpoint=sample.checkpoint,
        n=rated_count,
        unrated_count=rated.total - rated_count,
        naive=naive_mean(rated),
        rated=mean_of_rated,
        corrected=corrected,
        rogan_gladen=rogan_gladen,
        weight=weight,
        more_count=more_count,
        more_reason=more_reason,
        note="; ".join(filter(None, (_selection_words(sample.selection, corrected), sample.left_out, sample.note)))
        or None,
        is_random=sample.selection is None,
        chosen_count=sample.chosen_count,
    )


def _selection_words(selection: str | None, corrected: Estimate) -> str | None:
    if selection is None:
        return None
    if corrected.value is None:
        return f"{selection}: no corrected mean"
    return (
        f"{selection}: the corrected mean weighs the ratings by the judge's scores, and is right only if the outputs "
        "were chosen by these scores alone"
    )


def _missing_reason(judged: Judged, unrated: str) -> str:
    if judged.unjudged_words:
        return f"nobody rated an output that the judge scored; {judged.unjudged_words}"
    return unrated if judged.table.num_rows else "no verdict of this run is a judge's"


def _next_outputs(judged: pa.Table, count: int) -> tuple[Row, ...]:
    """Outputs to rate next. Scores are averaged over criteria; a rating of any criterion counts as rated."""
    if not count or not judged.num_rows:
        return ()
    keys = ["output_id", "model", "checkpoint", "case_id", "sample_index"]
    outputs = judged.group_by(keys, use_threads=False).aggregate([("score", "mean"), ("rating", "count")])
    outputs = outputs.sort_by("output_id").combine_chunks()
    names = pc.binary_join_element_wise(outputs.column("model"), pc.coalesce(outputs.column("checkpoint"), ""), "\n")
    is_rated = outputs.column("rating_count").to_numpy() > 0
    positions = rate_next(outputs.column("score_mean").to_numpy(), is_rated, names.to_numpy(), count)
    next_outputs = outputs.take(pa.array(positions, pa.int64())).drop_columns(["rating_count"])
    rows: list[Row] = next_outputs.rename_columns([*keys, "score"]).to_pylist()
    return tuple(rows)
