"""Summary of a published run, read from the lake with the same numbers as SQL."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.statistics.agreement import STATISTICS, Measure
from gradebook.rubrics.statistics.rater_comparison import JUDGE_STATISTICS
from gradebook.rubrics.statistics.release import Ship, whole_outcome
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.agreement.calibration import Calibration, calibrated_means, corrected_row, rated_failures
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.agreement.standing import JudgeStanding, judge_standings
from gradebook.tasks.comparing.compare import corrected_means
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.run_comparison import RunComparison, read_run_comparison
from gradebook.tasks.comparing.verdict import MOST_NAMED, NextStep, RunVerdict
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.requirements import (
    NO_CORRECTIONS,
    NO_REQUIREMENTS,
    Corrections,
    Requirements,
    Unmet,
    check_requirements,
    read_rubric_requirements,
)
from gradebook.tasks.published.runs import read_runs
from gradebook.tasks.published.verdict import Grounds, run_verdict
from gradebook.tasks.ratings.offered import offered_note
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.runs.request import ALL_MODELS
from gradebook.tasks.workspace.folder import RunFolder


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Published run.

    scores, criteria, costs, feedback: rows of run_scores, criterion_scores, stage_costs, run_feedback. noise: rows of
    judge_noise, if verdicts have several opinions. preferences: rows of preference_rates, with win rates. unmet:
    requirements that are not met, as sentences; waived: unmet ones that `--gate` ignores. means: the judge's means
    calibrated with the ratings of that time; calibration_fault: why there are none. comparison: with the baseline, if
    any. report_fault: why the page could not be written. unscored: reasons of the verdicts without a score, as rows of
    unscored_reasons; penalised: outputs with penalties only, as rows of penalised_outputs. standings: of the judge, by
    criterion, by the ratings at publication. reading: cases to read first, as rows of cases_to_read.
    has_rubric_requirement: whether a gate or threshold of the rubric counts, not the rule against the baseline alone.
    pass_threshold: of the rubric, 0..1. offered: sentence on ratings of other criterion texts, which do not count.
    requirements: of the rubric, as the intervals decide them. audited: rows of audited_scores, of a cascade with an
    audit.
    """

    run: Row
    scores: tuple[Row, ...]
    criteria: tuple[Row, ...]
    costs: tuple[Row, ...]
    quality: tuple[Row, ...]
    feedback: tuple[Row, ...]
    has_requirement: bool
    unmet: tuple[Unmet, ...]
    noise: tuple[Row, ...] = ()
    means: tuple[Calibration, ...] = ()
    calibration_fault: str | None = None
    comparison: RunComparison | None = None
    report_fault: str | None = None
    waived: tuple[Unmet, ...] = ()
    unscored: tuple[Row, ...] = ()
    penalised: tuple[Row, ...] = ()
    standings: tuple[JudgeStanding, ...] = ()
    reading: tuple[Row, ...] = ()
    has_rubric_requirement: bool = True
    preferences: tuple[Row, ...] = ()
    pass_threshold: float | None = None
    offered: str | None = None
    requirements: Requirements = NO_REQUIREMENTS
    audited: tuple[Row, ...] = ()

    @property
    def verdict(self) -> RunVerdict:
        """Verdict on the run: which model may ship and why, how far to trust that, and what to do next."""
        return run_verdict(
            Grounds(
                self.run,
                self.scores,
                self.criteria,
                self.run_gate,
                self.has_requirement,
                self.has_rubric_requirement,
                self.unmet,
                self.standings,
                self.reading,
                self.comparison,
                self.unscored,
                self.penalised,
                self.pass_threshold,
                self.requirements,
            )
        )

    @property
    def calibration(self) -> tuple[Row, ...]:
        """One row for each calibrated mean, as `corrected_row`."""
        return tuple(corrected_row(row) for row in self.means)

    @property
    def run_gate(self) -> str:
        """Requirements that count: both, rubric, baseline or none."""
        return _gate_of(self.run)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def is_met(self) -> bool:
        """Whether all requirements that `--gate` counts are met, for every model."""
        return not self.unmet

    @property
    def is_failed(self) -> bool:
        """Whether one of these requirements is known to fail; one that can't be checked is not."""
        return any(not requirement.is_undecided for requirement in self.unmet)

    def as_json(self) -> Row:
        """JSON object printed by `--json`."""
        return {
            **self.run,
            "has_requirement": self.has_requirement,
            "is_met": self.is_met,
            "is_failed": self.is_failed,
            "failed_models": sorted(_failed_models(self.unmet, self.scores)),
            "verdict": self.verdict.as_json(),
            "unmet": list(map(str, self.unmet)),
            "waived": list(map(str, self.waived)),
            "scores": list(self.scores),
            "criteria": list(self.criteria),
            "unscored": list(self.unscored),
            "costs": list(self.costs),
            "quality": list(self.quality),
            "feedback": list(self.feedback),
            "noise": list(self.noise),
            "preferences": list(self.preferences),
            "calibration": list(self.calibration),
            "calibration_fault": self.calibration_fault,
            "audited": list(self.audited),
            "offered_ratings": self.offered,
            "comparison": None if self.comparison is None else self.comparison.as_json(),
            "report_fault": self.report_fault,
        }


def other_model(row: Row) -> str:
    """Name of the model that a row's model is compared with. row: of preference_rates."""
    return model_name({"model": row["other_model"], "checkpoint": row["other_checkpoint"]})


def cost_words(rows: Iterable[Row]) -> str:
    """Sentence about the cost of a run. rows: of stage_costs."""
    rows = tuple(rows)
    billed, saved = (_total(rows, name) for name in ("cost_usd", "saved_usd"))
    counts = [sum(row[name] for row in rows) for name in ("request_count", "replayed_count")]
    requests, replayed = counted(counts[0], "request"), counted(counts[1], "verdict")
    again = f"; {replayed} used again, which saved {price_words(saved)}" if counts[1] else ""
    return f"Billed {price_words(billed)} for {requests}{again}."


def _total(rows: tuple[Row, ...], name: str) -> float | None:
    """Sum of a column; None if one value is unknown."""
    values = [row[name] for row in rows]
    return None if None in values else float(sum(values))


# Tables that the queries of a summary name more than once, and tables that are empty in most lakes: making an empty
# table is faster than reading one of the lake.
_OFTEN = ("runs", "run_scores", "criterion_scores", "output_scores", "verdicts", "outputs", "rubrics", "criteria")
_OF_JUDGES = ("agreement", "audited_scores", "judge_noise", "judged_preferences", "written_feedback")
OF_SUMMARY = frozenset({*_OFTEN, *_OF_JUDGES, "case_criteria", "levels", "ratings"})


def summarise(lake: Lake, run_id: str) -> RunSummary:
    """Read a published run's summary. Raises `InputError` for an unknown id."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        return read_summary(connection, lake, run_id)


def read_summary(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> RunSummary:
    """Read a published run's summary over a pinned connection. Raises as `summarise`."""
    run = read_published_run(connection, lake, run_id)
    scores = read_rows(
        connection,
        "select * exclude (run_id) from run_scores where run_id = ? order by mean desc nulls last, model",
        run_id,
    )
    criteria = read_rows(connection, query("published/shown_criteria"), run_id=run_id)
    costs = read_rows(connection, query("published/stage_costs_of_run"), run_id=run_id)
    quality = read_rows(connection, _QUALITY, run_id)
    feedback = read_rows(connection, _FEEDBACK, run_id)
    noise = read_rows(connection, _NOISE, run_id)
    preferences = read_rows(connection, query("published/preferences"), run_id=run_id)
    unscored = read_rows(connection, query("published/unscored_reasons"), run_id=run_id)
    penalised = read_rows(connection, query("published/penalised_outputs"), run_id=run_id)
    corrections, fault = _calibrate(connection, run_id, [row["criterion_id"] for row in criteria])
    means = tuple(corrections.means)
    outcome = _outcome(connection, lake, run, corrections)
    agreement = _published_agreement(connection, run_id) if run["judge"] is not None else ()
    required = read_rubric_requirements(connection, run_id)
    cases_to_read = read_rows(connection, query("published/cases_to_read"), run_id=run_id, case_count=MOST_NAMED)
    return RunSummary(
        run,
        scores,
        criteria,
        costs,
        quality,
        feedback,
        has_requirement=outcome.has_requirement,
        unmet=outcome.unmet,
        noise=noise,
        means=means,
        calibration_fault=fault,
        comparison=outcome.comparison,
        waived=outcome.waived,
        unscored=unscored,
        penalised=penalised,
        standings=judge_standings(
            agreement, means, {row["criterion_id"] for row in criteria if (row["weight"] or 0) < 0}
        ),
        reading=cases_to_read,
        has_rubric_requirement=outcome.has_rubric_requirement,
        preferences=preferences,
        pass_threshold=required["pass_threshold"],
        requirements=outcome.requirements,
        audited=read_rows(connection, _AUDITED, run_id),
        offered=offered_note(connection, run_id, lake.words()) if read_rows(connection, _HAS_RATINGS) else None,
    )


class StatedOutcome(NamedTuple):
    """Outcome of a published run: whether it has requirements, which are unmet, and the verdict.

    lines: verdict, reasons and change, as published; next_step: what to do first: its sentence, and the cases that it
    names. Both are empty without the run's folder.
    """

    has_requirement: bool
    unmet: tuple[str, ...]
    word: str
    lines: tuple[str, ...] = ()
    next_step: NextStep | None = None


def stated_outcome(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> StatedOutcome:
    """Outcome of a published run as its summary has it: read from its folder, else worked out again.

    The word of a run without its folder, or of an earlier gradebook, is by point estimates.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        stated = _read_stated(lake, run_id)
        has_requirement, unmet = stated.get("has_requirement", True), tuple(map(str, stated["unmet"]))
        # An earlier gradebook wrote only in a sentence that a rule is undecided.
        outcomes = [Ship.UNDECIDED if "undecided" in sentence else Ship.MAY_NOT for sentence in unmet]
        verdict = stated.get("verdict", {})
        word = verdict.get("word") or _outcome_word(has_requirement, outcomes)
        steps = [
            NextStep(str(step["sentence"]), case_ids=tuple(map(str, step.get("case_ids", ()))))
            for step in verdict.get("next", ())
        ]
        lines = tuple(map(str, verdict.get("lines", ())))
        return StatedOutcome(has_requirement, unmet, word, lines, steps[0] if steps else None)
    outcome = _outcome(connection, lake, read_published_run(connection, lake, run_id))
    outcomes = [Ship.UNDECIDED if requirement.is_undecided else Ship.MAY_NOT for requirement in outcome.unmet]
    return StatedOutcome(
        outcome.has_requirement, tuple(map(str, outcome.unmet)), _outcome_word(outcome.has_requirement, outcomes)
    )


def _read_stated(lake: Lake, run_id: str) -> Row:
    """Stored summary of a published run. Raises `OSError` or `ValueError` if its folder is gone or broken."""
    stated: Row = json.loads(RunFolder.below(lake.root, run_id).published_file.read_text(encoding="utf-8"))
    return stated


def _outcome_word(has_requirement: bool, unmet: Sequence[Ship]) -> str:
    return (whole_outcome([*unmet, Ship.MAY]) if has_requirement else Ship.NO_GATE).value


def failed_models(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> frozenset[str]:
    """Models of a published run that are known to fail a requirement that counts.

    Read from its folder as `stated_outcome` is, else worked out again: an earlier gradebook did not store them.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        stated = _read_stated(lake, run_id)
        is_clear = not stated["unmet"] or not stated["is_failed"]
        return frozenset() if is_clear else frozenset(map(str, stated["failed_models"]))
    outcome = _outcome(connection, lake, read_published_run(connection, lake, run_id))
    return _failed_models(outcome.unmet, read_rows(connection, _MODELS, run_id))


def _failed_models(unmet: Iterable[Unmet], models: Iterable[Row]) -> frozenset[str]:
    """Models with an unmet requirement that is not undecided, without their checkpoints."""
    failed: set[str] = set()
    for requirement in unmet:
        if not requirement.is_undecided:
            refused = {refusal.model for refusal in requirement.refused}
            of_run = refused or {model_name(row) for row in models}
            failed |= of_run if requirement.model is None else {requirement.model}
    return frozenset(row["model"] for row in models if model_name(row) in failed)


def stated_word(connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row) -> str | None:
    """Verdict on a run as one word; None for an unpublished run. run: with run_id and status."""
    return stated_outcome(connection, lake, run["run_id"]).word if run["status"] == "published" else None


def list_runs_with_verdicts(lake: Lake) -> tuple[Row, ...]:
    """All runs, as `list_runs`, each with its verdict as one word, or None for an unpublished run."""
    with connect(lake, read_only=True) as connection:
        return tuple(row | {"verdict": stated_word(connection, lake, row)} for row in read_runs(connection))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Requirements of a run: the rubric's, and its rule against the baseline, as `gate` counts them."""

    has_requirement: bool
    has_rubric_requirement: bool
    unmet: tuple[Unmet, ...]
    waived: tuple[Unmet, ...]
    comparison: RunComparison | None
    requirements: Requirements


def _outcome(
    connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row, corrections: Corrections = NO_CORRECTIONS
) -> _Outcome:
    requirements = check_requirements(connection, run["run_id"], corrections)
    has_requirement, unmet = requirements.has_requirement, requirements.unmet
    comparison, rule_fault = _comparison(connection, lake, run)
    has_rule = rule_fault is not None or (comparison is not None and comparison.gate is not None)
    of_baseline: tuple[Unmet, ...] = (
        () if rule_fault is None else (Unmet(None, rule_fault, rule_fault, is_undecided=True),)
    )
    if comparison is not None and comparison.gate is not None:
        baseline_gate = comparison.gate
        of_baseline += tuple(
            Unmet(None, reason, baseline_gate.brief, baseline_gate.is_undecided, baseline_gate.refused)
            for reason in comparison.unmet
        )
    gate = _gate_of(run)
    counts_rubric, counts_baseline = gate in ("both", "rubric"), gate in ("both", "baseline")
    return _Outcome(
        (has_requirement and counts_rubric) or (has_rule and counts_baseline),
        has_requirement and counts_rubric,
        (*(unmet if counts_rubric else ()), *(of_baseline if counts_baseline else ())),
        (*(() if counts_rubric else unmet), *(() if counts_baseline else of_baseline)),
        comparison,
        requirements,
    )


def _published_agreement(connection: duckdb.DuckDBPyConnection, run_id: str) -> tuple[AgreementPart, ...]:
    """Agreement of judge and people, and among people, by the ratings at publication."""
    by_criterion: dict[tuple[str, str], dict[str, Row]] = {}
    for row in read_rows(connection, _AGREEMENT, run_id):
        by_criterion.setdefault((row["criterion_id"], row["kind"]), {})[row["statistic"]] = row
    return tuple(
        AgreementPart(
            *key, None, None, *_agreement_counts(rows), tuple(_stored_measure(name, rows) for name in _ALL), (), ()
        )
        for key, rows in by_criterion.items()
    )


def _agreement_counts(rows: dict[str, Row]) -> tuple[int, int]:
    measure_row = rows.get("percent_agreement") or next(iter(rows.values()))  # some statistics use fewer outputs
    return measure_row["n"], measure_row["pair_count"]


def _stored_measure(statistic: str, rows: dict[str, Row]) -> Measure:
    """Measure of one statistic; unknown if the run was published without it."""
    row = rows.get(statistic, {})
    return Measure(statistic, *(row.get(name) for name in ("value", "ci_low", "ci_high", "reason", "n")))


def _gate_of(run: Row) -> str:
    return str(json.loads(run.get("settings") or "{}").get("gate") or "both")


def _calibrate(
    connection: duckdb.DuckDBPyConnection, run_id: str, criteria: list[str]
) -> tuple[Corrections, str | None]:
    """Corrections by people's ratings, if judged criteria were rated; or the reason why there are none."""
    try:
        if not read_rows(connection, _IS_RATED, criteria):
            return NO_CORRECTIONS, None
        add_questions_of_run(connection, run_id, "ratings")
        rated_rows = read_rows(connection, query("published/rated_criteria"), run_id=run_id, criterion_ids=criteria)
        rated = [row["criterion_id"] for row in rated_rows]
        if not rated:
            return NO_CORRECTIONS, None
        return _corrections(connection, run_id, rated), None
    # The run is already published: a fault of later ratings must not fail it.
    except (duckdb.Error, ArithmeticError, ValueError) as error:
        return NO_CORRECTIONS, str(error).splitlines()[0]


def _corrections(connection: duckdb.DuckDBPyConnection, run_id: str, rated: list[str]) -> Corrections:
    """Calibrated means, and the rates and overall means that decide where the rubric says `decide: interval`."""
    means = calibrated_means(connection, run_id, rated)
    required = read_rubric_requirements(connection, run_id)
    if required["decide"] != "interval":
        return Corrections(means)
    criteria = read_rows(connection, query("published/criterion_requirements"), run_id=run_id)
    marks = {
        row["criterion_id"]: row["threshold"]
        for row in criteria
        if row["criterion_id"] in rated and (row["is_gate"] or row["threshold"] is not None)
    }
    failures = rated_failures(connection, run_id, marks) if marks else {}
    if required["pass_threshold"] is None:
        return Corrections(means, failures)
    ((body,),) = connection.execute(_BODY, [run_id]).fetchall()
    return Corrections(means, failures, corrected_means(connection, run_id, rubric_from_body(body)))


def _comparison(connection: duckdb.DuckDBPyConnection, lake: Lake, run: Row) -> tuple[RunComparison | None, str | None]:
    """Comparison of the run with its baseline, or None; and why its rule could not be evaluated, or None."""
    settings = json.loads(run["settings"] or "{}")
    baseline, fault = (settings.get(name) for name in ("baseline_run_id", "baseline_fault"))
    rule = gate_rule(settings.get("fail_if"), settings.get("require"))
    comparison = None
    if baseline is not None:
        try:
            # Runs of versions without the option were published with a gate across judges.
            across = bool(settings.get("across_judges", True))
            needs_all = settings.get("models", ALL_MODELS) == ALL_MODELS  # and without the option, by all models
            comparison = read_run_comparison(
                connection,
                lake,
                run["run_id"],
                baseline,
                rule,
                across_judges=across,
                needs_all_models=needs_all,
            )
        except GradebookError as error:  # the run is already published: a fault of the baseline must not fail it
            fault = str(error).splitlines()[0]
    rule_fault = f"gate undecided: required {rule.required}, found no comparison: {fault}" if rule and fault else None
    return comparison, rule_fault


_FEEDBACK = "select model, checkpoint, feedback from run_feedback where run_id = ? order by mean desc nulls last, model"
_ALL = (*STATISTICS, *JUDGE_STATISTICS)
_AGREEMENT = """
select * from agreement
where run_id = ? and judge is null and rater is null and kind in ('judge_raters', 'raters')
order by criterion_id, kind, statistic
"""
_AUDITED = "select * exclude (run_id) from audited_scores where run_id = ? order by model, checkpoint, criterion_id"
_MODELS = "select model, checkpoint from run_scores where run_id = ?"
_NOISE = "select * exclude (run_id) from judge_noise where run_id = ? order by criterion_id, model, checkpoint"
_HAS_RATINGS = "select 1 as has_ratings from ratings limit 1"
# Ratings of any run count: this cheap query of one table avoids the others in a lake without ratings.
_BODY = (
    "select body from rubrics inner join runs on rubrics.rubric_id = runs.rubric_id "
    "and rubrics.rubric_version = runs.rubric_version where run_id = ?"
)
_IS_RATED = "select 1 as is_rated from ratings where score is not null and list_contains(?, criterion_id) limit 1"
_QUALITY = """
select stage, count(*) as expectation_count, count(*) filter (not is_met) as unmet_count,
    list(subject || ': ' || expectation order by subject, expectation) filter (not is_met) as unmet
from quality_results where run_id = ? group by stage order by stage
"""
