"""Gates and thresholds of a rubric, checked against a run's scores: unmet ones, and decisions by intervals.

What is unmet is decided by these outputs alone, and decides the exit code; an unknown outcome counts as unmet. Whether
a model may ship is decided, where the rubric says `decide: interval`, on the ends of intervals
(rubrics/statistics/release.py), else by what is unmet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, sqrt

import duckdb

from gradebook.rubrics.model.rubric import ALPHA, MAX_FAILURE_RATE
from gradebook.rubrics.statistics.calibration import CorrectedSum, Rated
from gradebook.rubrics.statistics.intervals import SCORES, Interval, Mean
from gradebook.rubrics.statistics.release import (
    TOLERANCE,
    Decision,
    Ship,
    decide_failures,
    decide_mean,
    failures_by_people,
    filled_interval,
    interval_at,
    normal_interval_at,
    trials_behind,
)
from gradebook.rubrics.text.wording import EACH_CASE_ONCE, counted, rate_words, score_words
from gradebook.tasks.agreement.calibration import Calibration
from gradebook.tasks.comparing.gate import Refusal
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query

MOST_GATES = 3
NONE_MAY = " (none may)"  # text on the limit of a gate without its own failure rate


@dataclass(frozen=True, slots=True)
class Unmet:
    """Requirement that is not met; as text, a sentence. model: None if it concerns the run.

    brief: the fault in short, with each failed gate. is_undecided: the requirement can't be checked.
    refused: of a rule against the baseline, the models that it does not let pass, if it does not refuse all alike.
    """

    model: str | None
    fault: str
    brief: str
    is_undecided: bool = False
    refused: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        return self.fault if self.model is None else f"{self.model}: {self.fault}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Requirement decided on the end of an interval, for one model. reason: a clause with the figures and the limit.

    more_count: further cases that would decide it. case_count: cases of the model, if the reason is that they are too
    few to decide.
    """

    model: str
    outcome: Ship
    reason: str
    more_count: int | None = None
    case_count: int | None = None


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements of a rubric over a run. unmet: by these outputs alone. checked: empty without `decide: interval`.

    low_means: means under their criterion's threshold, as (model, clause), where the rubric does not require it.
    """

    has_requirement: bool
    unmet: tuple[Unmet, ...] = ()
    checked: tuple[Checked, ...] = ()
    low_means: tuple[tuple[str, str], ...] = ()
    is_by_interval: bool = False
    alpha: float = ALPHA


NO_REQUIREMENTS = Requirements(has_requirement=False)


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections of the judge's scores by people's ratings, so that its errors are in the intervals that decide.

    means: of criteria; failures: of each model and criterion, 1 where an output is under its mark; overall: corrected
    overall means by model, of those whose judged criteria are all rated.
    """

    means: Sequence[Calibration] = ()
    failures: Mapping[tuple[str, str], Rated] = field(default_factory=dict)
    overall: Mapping[str, CorrectedSum] = field(default_factory=dict)


NO_CORRECTIONS = Corrections()
Corrected = tuple[float, Interval]  # of a mean or a rate


def read_rubric_requirements(connection: duckdb.DuckDBPyConnection, run_id: str) -> Row:
    """The row of `rubric_requirements` of a run."""
    select = query("published/rubric_requirements")
    (row,) = read_rows(connection, select, run_id=run_id, each_case_once=EACH_CASE_ONCE)
    return row


def check_requirements(
    connection: duckdb.DuckDBPyConnection, run_id: str, corrections: Corrections = NO_CORRECTIONS
) -> Requirements:
    """Check each gate and threshold of the rubric.

    A mean must reach its threshold even if all missing scores were the worst possible.
    """
    rubric = read_rubric_requirements(connection, run_id)
    criteria = read_rows(connection, query("published/criterion_requirements"), run_id=run_id)
    tolerant_ids = sorted({row["criterion_id"] for row in criteria if row["max_failure_rate"] is not None})
    models = read_rows(connection, query("published/model_requirements"), run_id=run_id, tolerant_ids=tolerant_ids)
    gates: dict[str, list[Row]] = {}
    for row in read_rows(connection, query("published/gate_failures"), run_id=run_id):
        if row["criterion_id"] not in tolerant_ids:
            gates.setdefault(model_name(row), []).append(row)
    unmet = [
        requirement for row in models for requirement in _unmet_by_model(row, rubric, gates.get(model_name(row), []))
    ]
    unmet += [] if models else [Unmet(None, "found no scores of the run in run_scores, expected some", "no scores")]
    unmet += [requirement for row in criteria for requirement in _unmet_by_criterion(row, rubric)]
    has_gate = any(row["is_gate"] for row in criteria) or any(row["own_gate_count"] for row in models)
    is_by_interval = rubric["decide"] == "interval"
    return Requirements(
        rubric["pass_threshold"] is not None or rubric["require_thresholds"] or has_gate,
        tuple(sorted(unmet, key=str)),
        tuple(_check_intervals(rubric, criteria, models, corrections)) if is_by_interval else (),
        () if rubric["require_thresholds"] else tuple(_low_means(criteria)),
        is_by_interval,
        ALPHA if rubric["alpha"] is None else rubric["alpha"],
    )


def _unmet_by_model(row: Row, rubric: Row, gates: Sequence[Row]) -> Iterator[Unmet]:
    if row["gate_failure_count"]:
        failed_share = _failed(row["gate_failure_count"], row["output_count"])
        yield Unmet(model_name(row), f"{failed_share} a gate", f"{failed_share} {_gate_words(gates)}")
    if row["own_gap_count"]:
        outputs = f"{row['own_gap_count']:,} of {counted(row['output_count'], 'output')}"
        fault = f"gates of per-case criteria are not scored for {outputs}"
        yield Unmet(model_name(row), fault, fault)
    if rubric["pass_threshold"] is not None:
        yield from _unmet_mean(row, "mean", rubric["pass_threshold"], row["mean_low"])


def _gate_words(gates: Sequence[Row]) -> str:
    """Text on the failed gates, the most frequent first, with the allowed rate; with counts if there are several."""
    names = [f"{row['criterion_id']} ({row['failure_count']:,})" for row in gates[:MOST_GATES]]
    more = f" and {len(gates) - MOST_GATES:,} more" if len(gates) > MOST_GATES else ""
    several = f"gates{NONE_MAY}: {', '.join(names)}{more}"
    return several if len(gates) > 1 else f"the gate {gates[0]['criterion_id']}{NONE_MAY}"


def _unmet_by_criterion(row: Row, rubric: Row) -> Iterator[Unmet]:
    gap_count = row["output_count"] - row["n"]
    if row["is_gate"] and gap_count:
        fault = _gap_words(row)
        yield Unmet(model_name(row), fault, fault)
    elif row["max_failure_rate"] is not None and row["n"]:
        if row["failure_count"] / row["n"] > row["max_failure_rate"] + TOLERANCE:
            failed_share = _failed_words(row["failure_count"], row["output_count"], row["criterion_id"])
            most = rate_words(row["max_failure_rate"])
            yield Unmet(
                model_name(row), f"{failed_share}, expected at most {most}", f"{failed_share} (at most {most} may)"
            )
    elif row["is_optional"] and not row["n"]:
        return
    elif not row["is_gate"] and rubric["require_thresholds"] and row["threshold"] is not None:
        is_skipped = rubric["missing"] == "skip" or row["is_optional"]
        mean_low = row["mean"] if is_skipped else (row["mean"] or 0.0) * row["n"] / row["output_count"]
        yield from _unmet_mean(row, f"mean of {row['criterion_id']}", row["threshold"], mean_low)


def _unmet_mean(row: Row, name: str, threshold: float, mean_low: float | None) -> Iterator[Unmet]:
    model = model_name(row)
    is_sure = mean_low is not None and mean_low >= threshold - TOLERANCE  # for any values of the missing scores
    if row["mean"] is None:
        if is_sure and threshold > 0.0:  # a threshold of 0 asks for a score at all
            return
        brief = f"no output has a score for the {name}" if name != "mean" else "no output has a score"
        yield Unmet(model, f"no output has a score, expected {name} of at least {threshold:g}", brief)
    elif row["mean"] < threshold - TOLERANCE:
        fault = f"{name} {row['mean']:.3f}, expected at least {threshold:g}"
        yield Unmet(model, fault, f"the {name} is {row['mean']:.3f} (needs {threshold:g})")
    elif mean_low is not None and not is_sure:
        scored = f"{row['n']:,} of {counted(row['output_count'], 'output')}"
        fault = f"{name} {row['mean']:.3f} over {scored}, expected at least {threshold:g} for any scores of the others"
        brief = f"only {scored} are scored, so the {name} could be below {threshold:g}"
        yield Unmet(model, fault, brief)


def _check_intervals(
    rubric: Row, criteria: Sequence[Row], models: Sequence[Row], corrections: Corrections
) -> Iterator[Checked]:
    """Each requirement of each model, decided on the end of its interval: gates first."""
    if rubric["is_weighted"]:
        corrections = NO_CORRECTIONS  # they count each output
    alpha = _alpha(rubric)
    corrected = {
        (calibration.name, calibration.criterion_id): (
            calibration.corrected.value,
            normal_interval_at(*_interval_of(calibration), alpha),
        )
        for calibration in corrections.means
        if calibration.is_random
        and calibration.corrected.value is not None
        and calibration.corrected.ci_low is not None
    }
    for row in criteria:
        if row["is_gate"] and row["output_count"]:  # one with a condition may apply to no output
            yield _check_gate(rubric, row, corrections.failures.get((model_name(row), row["criterion_id"])))
    for row in models:
        if row["own_gate_count"]:
            yield _check_own_gates(rubric, row)
        if rubric["pass_threshold"] is not None:
            mean_range = row["mean_low"], row["mean_high"]
            corrected_overall = corrections.overall.get(model_name(row))
            interval = None if corrected_overall is None else corrected_overall.interval(SCORES, 1.0 - 2.0 * alpha)
            corrected_mean = (
                None if corrected_overall is None or interval is None else (corrected_overall.value, interval)
            )
            yield _check_mean(rubric, row, "mean", rubric["pass_threshold"], mean_range, corrected_mean)
    for row in criteria if rubric["require_thresholds"] else ():
        if row["is_gate"] or row["threshold"] is None or (row["is_optional"] and not row["n"]):
            continue
        if row["threshold"] >= 1.0 - TOLERANCE and row["n"]:
            yield _check_top_threshold(rubric, row, corrections.failures.get((model_name(row), row["criterion_id"])))
            continue
        share = 1.0 if rubric["missing"] == "skip" or row["is_optional"] else row["n"] / row["output_count"]
        mean = row["mean"] or 0.0
        mean_range = mean * share, mean * share + 1.0 - share
        corrected_mean = corrected.get((model_name(row), row["criterion_id"]))
        yield _check_mean(rubric, row, f"mean of {row['criterion_id']}", row["threshold"], mean_range, corrected_mean)


def _check_gate(rubric: Row, row: Row, rated: Rated | None) -> Checked:
    limit, alpha = _limit(rubric, row["max_failure_rate"]), _alpha(rubric)
    trials, rate = float(row["output_count"]), 1.0 - (row["pass_rate"] or 0.0) if row["n"] else 0.0
    unknown_count = row["output_count"] - row["n"]
    worth = _trials_per_output(rubric, row, rate)
    interval, also = _interval_with_ratings(row, rated, alpha, unknown_count / row["output_count"])
    trials, unknown_count = trials * worth, unknown_count * worth
    decision = decide_failures(
        rate * (trials - unknown_count),
        trials,
        limit,
        alpha=alpha,
        unknown=unknown_count,
        is_hard=row["max_failure_rate"] is None,
        interval=interval,
    )
    if unknown_count and decision.outcome is Ship.UNDECIDED:
        return Checked(model_name(row), decision.outcome, _gap_words(row))
    if decision.outcome is Ship.UNDECIDED and rate <= limit:
        return _undecided_rate(
            row, decision, row["failure_count"], f"failing the gate {row['criterion_id']}", limit, also
        )
    failed_share = _failed_words(row["failure_count"], row["output_count"], row["criterion_id"])
    has_failed = row["failure_count"] > 0 and row["max_failure_rate"] is None
    clause = _rate_clause(decision, limit, also, has_failed=has_failed)
    return Checked(model_name(row), decision.outcome, failed_share + clause, decision.more_count)


def _check_top_threshold(rubric: Row, row: Row, rated: Rated | None) -> Checked:
    """Check a threshold of 1, which no interval of a mean reaches, as a gate: an output fails below 1."""
    limit = _limit(rubric)
    is_skipped = rubric["missing"] == "skip" or row["is_optional"]
    unknown_count = 0 if is_skipped else row["output_count"] - row["n"]
    rate = 1.0 - (row["pass_rate"] or 0.0)
    trials = row["n"] * _trials_per_output(rubric, row, rate)
    interval, also = _interval_with_ratings(row, rated, _alpha(rubric), unknown_count / (row["n"] + unknown_count))
    decision = decide_failures(
        rate * trials, trials + unknown_count, limit, alpha=_alpha(rubric), unknown=unknown_count, interval=interval
    )
    if unknown_count and decision.outcome is Ship.UNDECIDED:
        outputs = f"{row['output_count'] - row['n']:,} of {counted(row['output_count'], 'output')}"
        return Checked(model_name(row), decision.outcome, f"{row['criterion_id']} is not scored for {outputs}")
    below_count = max(round(rate * row["n"]), int(rate > 0.0))  # the rate counts each case once
    if decision.outcome is Ship.UNDECIDED and rate <= limit:
        return _undecided_rate(
            row, decision, below_count, f"under the threshold 1 of {row['criterion_id']}", limit, also
        )
    verb = "is" if below_count == 1 else "are"
    failure_clause = (
        f"{below_count:,} of {counted(row['n'], 'output')} {verb} under the threshold 1 of {row['criterion_id']}"
    )
    clause = _rate_clause(decision, limit, also, has_failed=below_count > 0)
    return Checked(model_name(row), decision.outcome, failure_clause + clause, decision.more_count)


def _trials_per_output(rubric: Row, row: Row, rate: float) -> float:
    """Trials that one output counts as: less than 1 if cases have several outputs, or were drawn by stratum."""
    is_apart = (row["cluster_count"] or row["n"]) >= row["n"] and not rubric["is_weighted"]
    if not row["n"] or row["pass_low"] is None or is_apart:
        return 1.0
    return float(trials_behind(rate, 1.0 - row["pass_low"], row["n"]) / row["n"])


def _interval_with_ratings(
    row: Row, rated: Rated | None, alpha: float, unknown_share: float
) -> tuple[Interval | None, str]:
    """Interval of the failure rate with the judge's errors, and words on it; None without ratings.

    unknown_share: of outputs without a verdict, which fail at the upper end and pass at the lower.
    """
    # Ratings correct the judge, so not where people scored outputs themselves.
    by_people = None if rated is None or rated.total != row["n"] else failures_by_people(rated, alpha)
    if by_people is None:
        return None, ""
    known_share = 1.0 - unknown_share
    interval = Interval(by_people.interval.low * known_share, by_people.interval.high * known_share + unknown_share)
    return interval, ", with the judge's errors"


def _check_own_gates(rubric: Row, row: Row) -> Checked:
    """Check the gates of per-case criteria as one gate: an output fails if it fails one of its case's gates."""
    limit = _limit(rubric)
    gaps = row["own_gap_count"]
    decision = decide_failures(
        row["own_failure_count"], row["own_gate_count"], limit, alpha=_alpha(rubric), unknown=gaps
    )
    if gaps and decision.outcome is Ship.UNDECIDED:
        outputs = f"{gaps:,} of {counted(row['own_gate_count'], 'output')}"
        return Checked(model_name(row), decision.outcome, f"gates of per-case criteria are not scored for {outputs}")
    failed_share = _failed_words(row["own_failure_count"], row["own_gate_count"], "of the case")
    clause = _rate_clause(decision, limit, has_failed=row["own_failure_count"] > 0)
    return Checked(model_name(row), decision.outcome, failed_share + clause, decision.more_count)


def _undecided_rate(row: Row, decision: Decision, failure_count: int, outputs: str, limit: float, note: str) -> Checked:
    """Undecided requirement: a failure rate below its limit whose interval reaches above it.

    outputs: words for the failing outputs; note: words on the interval.
    """
    failures = f"{failure_count:,} of {counted(row['n'], 'output')}, " if failure_count else ""
    clause = f"{rate_words(decision.interval.high)} {outputs} ({failures}limit {rate_words(limit)}{note})"
    return Checked(model_name(row), decision.outcome, clause, decision.more_count, _case_count(row))


def _case_count(row: Row) -> int:
    return int(row["cluster_count"] or row["n"])


def _rate_clause(decision: Decision, limit: float, note: str = "", *, has_failed: bool) -> str:
    """Clause on the interval of a failure rate and its limit. interval_note: words on the interval.

    has_failed: one failure refutes, and there is one, so that only the limit is named.
    """
    interval = decision.interval
    match decision.outcome:
        case Ship.MAY_NOT if has_failed:
            return NONE_MAY
        case Ship.MAY:
            return f" (at most {rate_words(interval.high)}{note}, limit {rate_words(limit)})"
        case Ship.MAY_NOT:
            return f" (at least {rate_words(interval.low)}{note}, limit {rate_words(limit)})"
    return f" (could be {rate_words(interval.low)} to {rate_words(interval.high)}{note}, limit {rate_words(limit)})"


def _check_mean(
    rubric: Row, row: Row, name: str, threshold: float, mean_range: tuple[float, float], corrected: Corrected | None
) -> Checked:
    """Decide on a mean.

    mean_range: mean with missing scores at their worst, and at their best; corrected: by ratings.
    """
    model, mean, alpha = model_name(row), row["mean"], _alpha(rubric)
    if mean is None:
        brief = f"no output has a score for the {name}" if name != "mean" else "no output has a score"
        return Checked(model, Ship.UNDECIDED, brief)
    units, also = row["cluster_count"] or row["n"], ""
    if corrected is not None:
        (mean, interval), also = corrected, " corrected by ratings"
        unknown_share = mean_range[1] - mean_range[0]  # share of scores that are missing
        known_share = 1.0 - unknown_share
        mean_range = mean * known_share, mean * known_share + unknown_share
        interval = Interval(interval.low * known_share, interval.high * known_share + unknown_share)
    else:
        interval = _mean_interval(row, mean_range, alpha)
    decision = decide_mean(mean, interval, threshold, units, mean_range[0])
    clause = f"the {name} is {score_words(mean)}{also}"
    needs = f"needs {threshold:g}"
    if not interval.is_known:
        return Checked(model, decision.outcome, f"{clause} of a single case, which shows nothing ({needs})")
    if decision.outcome is not Ship.UNDECIDED:
        end = (
            f"at least {score_words(interval.low)}"
            if decision.outcome is Ship.MAY
            else f"at most {score_words(interval.high)}"
        )
        return Checked(model, decision.outcome, f"{clause} ({end}; {needs})")
    if mean_range[0] < mean - TOLERANCE and mean >= threshold:
        scored = f"{row['n']:,} of {counted(row['output_count'], 'output')}"
        return Checked(
            model,
            decision.outcome,
            f"only {scored} are scored, so the {name} could be {score_words(interval.low)} ({needs})",
        )
    # Further cases alone do not narrow the uncertainty of the ratings.
    more_count = None if corrected is not None else decision.more_count
    if mean < threshold:
        could = f"{clause} and could be {score_words(interval.high)} ({needs})"
        return Checked(model, decision.outcome, could, more_count)
    low_mean = f"a {name} of {score_words(interval.low)}{also} ({needs})"
    return Checked(model, decision.outcome, low_mean, more_count, _case_count(row))


def _mean_interval(row: Row, mean_range: tuple[float, float], alpha: float) -> Interval:
    """Interval of a mean: with the missing scores at their worst for its lower end, at their best for the upper one."""
    low, high = (nan if row[name] is None else row[name] for name in ("ci_low", "ci_high"))
    n, gap_count = row["n"], row["output_count"] - row["n"]
    units = row["cluster_count"] or n
    sd = row["sd"] or 0.0
    mean = Mean(n, units, row["mean"], sd, sd / sqrt(units), units - 1.0)
    whole = interval_at(mean, low, high, alpha)
    if mean_range[0] >= row["mean"] - TOLERANCE and mean_range[1] <= row["mean"] + TOLERANCE:
        return whole
    fills = [min(max((end * row["output_count"] - n * row["mean"]) / gap_count, 0.0), 1.0) for end in mean_range]
    below, above = (filled_interval(mean, gap_count, fill, alpha) for fill in fills)
    return Interval(below.low, above.high)


def _low_means(criteria: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Means under their criterion's threshold, where only outputs are checked against it."""
    for row in criteria:
        is_low = row["mean"] is not None and row["threshold"] is not None and not row["is_gate"]
        if is_low and row["mean"] < row["threshold"] - TOLERANCE:
            yield model_name(row), f"{row['criterion_id']} {score_words(row['mean'])} (needs {row['threshold']:g})"


def _limit(rubric: Row, own_rate: float | None = None) -> float:
    """Largest failure rate that may ship: a gate's own, else the rubric's, else the default."""
    rate = rubric["max_failure_rate"] if own_rate is None else own_rate
    return MAX_FAILURE_RATE if rate is None else rate


def _alpha(rubric: Row) -> float:
    return ALPHA if rubric["alpha"] is None else rubric["alpha"]


def _interval_of(means: Calibration) -> tuple[float, float, float]:
    corrected = means.corrected
    if corrected.value is None or corrected.ci_low is None or corrected.ci_high is None:
        return SCORES.low, SCORES.low, SCORES.high
    return corrected.value, corrected.ci_low, corrected.ci_high


def _failed_words(failure_count: int, output_count: int, gate: str) -> str:
    return f"{_failed(failure_count, output_count)} the gate {gate}"


def _failed(failure_count: int, output_count: int) -> str:
    verb = "fails" if failure_count == 1 else "fail"
    return f"{failure_count:,} of {counted(output_count, 'output')} {verb}"


def _gap_words(row: Row) -> str:
    outputs = f"{row['output_count'] - row['n']:,} of {counted(row['output_count'], 'output')}"
    return f"the gate {row['criterion_id']} is not scored for {outputs}"
