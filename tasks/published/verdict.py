"""The verdict on a published run: which model may ship and why, how far to trust that, and what to do next."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from gradebook.rubrics.statistics.release import Ship, whole_outcome
from gradebook.rubrics.statistics.rules import NOT_WORSE
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.text.wording import (
    counted,
    difference_interval_words,
    interval_words,
    rate_words,
    score_words,
    signed_words,
)
from gradebook.tasks.agreement.standing import MOST_BIAS, JudgeStanding, Trust
from gradebook.tasks.comparing.expected_power import MOST_MARGIN
from gradebook.tasks.comparing.figures import ComparedRow, are_unchanged, overall_row
from gradebook.tasks.comparing.gate import WORSE, gate_rule, open_words
from gradebook.tasks.comparing.run_comparison import ComparedModels, RunComparison
from gradebook.tasks.comparing.sentences import unchanged_words
from gradebook.tasks.comparing.stopping import stopped_by_suite, stopped_words
from gradebook.tasks.comparing.verdict import (
    MOST_NAMED,
    MOST_PAIRS,
    MOST_REASONS,
    Fact,
    ModelVerdict,
    NextStep,
    RunVerdict,
    change_fact,
    missing_facts,
)
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.requirements import NO_REQUIREMENTS, Requirements, Unmet

LONGEST_QUESTION = 90
NO_BASELINE = "There is no run to compare with."
# Outcomes of a comparison besides those of `Chance`; the second one where the rubrics differ.
UNCHANGED, SAME_CRITERIA, EQUAL, LEFT_OPEN = "unchanged", "same criteria", "equal scores", "left open"
ALONE = "nothing is required of it but the rule against the baseline, and only this run has it"
_MARGIN = re.compile(rf"{NOT_WORSE}\(\s*([0-9.]+)\s*\)")


@dataclass(frozen=True, slots=True)
class Grounds:
    """Figures that a verdict rests on. The fields are those of `RunSummary`; gate: which requirements count."""

    run: Row
    scores: Sequence[Row]
    criteria: Sequence[Row]
    gate: str
    has_requirement: bool
    has_rubric_requirement: bool
    unmet: Sequence[Unmet]
    standings: Sequence[JudgeStanding]
    reading: Sequence[Row]
    comparison: RunComparison | None
    unscored: Sequence[Row] = ()
    penalised: Sequence[Row] = ()
    pass_threshold: float | None = None
    requirements: Requirements = NO_REQUIREMENTS

    @property
    def settings(self) -> Row:
        """Settings that the run was published with."""
        settings: Row = json.loads(self.run.get("settings") or "{}")
        return settings

    @property
    def has_missed_judge(self) -> bool:
        """Whether criteria are unscored because the run had no judge."""
        return any(row["reason"] == "no_judge" for row in self.unscored)

    @property
    def gaps(self) -> list[str]:
        """Weighted and required criteria that no output of a model is scored on, unless the run lacked its judge."""
        rows = [] if self.has_missed_judge else [row for row in self.criteria if row["weight"] and row["is_required"]]
        return list(dict.fromkeys(row["criterion_id"] for row in rows if row.get("n") == 0))

    @property
    def lone_models(self) -> list[str]:
        """Models that the baseline lacks, and that decide nothing."""
        return [] if self.comparison is None else _lone_models(self.comparison, "B")

    @property
    def is_against_baseline(self) -> bool:
        """Whether another run is compared; a report without a baseline compares two models of the run itself."""
        return self.comparison is not None and self.comparison.baseline_run_id != self.run["run_id"]


def run_verdict(grounds: Grounds) -> RunVerdict:
    """Make the verdict; all decisions on chance come from the rows and standings themselves."""
    models = tuple(model_verdicts(grounds))
    shipping = [_shipping_clause(grounds, models), *_low_mean_clauses(grounds, models), *_missing_clauses(grounds)]
    change, doubt = [*_change_clauses(grounds, models)], [*_doubt_clauses(grounds.standings)]
    sentence = f"{'; '.join([*shipping, *change, *doubt])}."
    judge = [*_judge_facts(grounds)]
    reasons = _reasons_clause(grounds, models)
    facts = (
        *_reason_facts(models),
        *_threshold_facts(grounds),
        *_gap_facts(grounds),
        *_penalty_facts(grounds),
        *_change_facts(grounds),
        *_gate_facts(grounds, sentence),
        *_decision_facts(grounds, models, reasons),
        *judge,
    )
    verdict_lines = (
        _headline(grounds, models),
        _sentence_of([reasons, *_low_mean_clauses(grounds, models), *_missing_clauses(grounds)], models),
        _sentence_of([*change, *doubt], models) if change or doubt else NO_BASELINE,
    )
    return RunVerdict(sentence, _is_good(models), facts, tuple(_next_steps(grounds)), verdict_lines, models)


def _headline(grounds: Grounds, models: Sequence[ModelVerdict]) -> str:
    """The verdict on each model, without reasons."""
    by_outcome: dict[Ship, list[str]] = {}
    for verdict in models:
        by_outcome.setdefault(verdict.outcome, []).append(verdict.model)
    if not models:
        return "No model may ship." if grounds.has_requirement else "Nothing is decided."
    if len(by_outcome) == 1 and (open_names := by_outcome.get(Ship.UNDECIDED) or by_outcome.get(Ship.NO_GATE)):
        prefix = "Undecided" if Ship.UNDECIDED in by_outcome else "Nothing decides"
        return f"{prefix} whether {_join_first(open_names)} may ship."
    be = "is" if len(by_outcome.get(Ship.UNDECIDED, ())) == 1 else "are"
    verbs = {Ship.MAY: "may ship", Ship.UNDECIDED: f"{be} undecided", Ship.MAY_NOT: "may not ship"}
    clauses = [f"{_join_first(by_outcome[outcome])} {verb}" for outcome, verb in verbs.items() if outcome in by_outcome]
    clauses += [f"nothing decides on {_join_first(names)}"] if (names := by_outcome.get(Ship.NO_GATE)) else []
    return f"{'; '.join(clauses)}."


def _reasons_clause(grounds: Grounds, models: Sequence[ModelVerdict]) -> str:
    """Reasons of models that may not ship or are undecided; without such models, of those that may ship."""
    if not grounds.has_requirement:
        return _undecided_words(grounds)
    is_shown = grounds.has_rubric_requirement and grounds.requirements.is_by_interval
    not_shipping = [verdict for verdict in models if verdict.outcome is not Ship.MAY]
    if not models:
        return " and ".join(requirement.brief for requirement in grounds.unmet)
    if not not_shipping and not is_shown:
        by_points = ", by point estimates" if grounds.has_rubric_requirement else ""
        return f"{_met_words(grounds)}{by_points}"
    if not not_shipping and len({verdict.reason for verdict in models}) > 1:
        return _met_words(grounds)
    if len({verdict.reason for verdict in not_shipping or models}) == 1:
        is_of_all = not not_shipping or len(not_shipping) == len(models)
        names = "" if is_of_all else f"{_join_first([verdict.model for verdict in not_shipping])}: "
        return names + (not_shipping or models)[0].reason
    first_models = not_shipping[:MOST_NAMED]
    more = len(not_shipping) - len(first_models)
    names_by_reason: dict[str, list[str]] = {}
    for verdict in first_models:
        names_by_reason.setdefault(verdict.reason, []).append(verdict.model)
    sentence = "; ".join(f"{_join_first(names)}: {reason}" for reason, names in names_by_reason.items())
    return sentence + (f"; and of {more:,} more" if more else "")


def _sentence_of(clauses: Sequence[str], models: Sequence[ModelVerdict]) -> str:
    """Clauses as a sentence; the name of a model keeps its letters."""
    sentence = "; ".join(clauses).removeprefix("but ")
    has_name_first = sentence.startswith(tuple(verdict.model for verdict in models))
    return f"{sentence if has_name_first else sentence[:1].upper() + sentence[1:]}."


def _is_good(models: Sequence[ModelVerdict]) -> bool | None:
    """True if a model may ship, False if no model may, None if undecided."""
    outcomes = {model.outcome for model in models}
    if Ship.MAY in outcomes:
        return True
    return False if outcomes == {Ship.MAY_NOT} else None


def model_verdicts(grounds: Grounds) -> Iterator[ModelVerdict]:
    """Verdict on each model: by the ends of intervals, or by what is unmet, and by the rule against the baseline."""
    for row in grounds.scores:
        name = model_name(row)
        by_rule = [*_rule_outcomes(grounds.unmet, name)]
        of_rule = [outcome for outcome, *_ in by_rule]
        faults = [requirement for requirement in grounds.unmet if requirement.model == name]
        checked = [
            requirement
            for requirement in grounds.requirements.checked
            if requirement.model == name and grounds.has_rubric_requirement
        ]
        outcomes = [requirement.outcome for requirement in checked]
        if not grounds.requirements.is_by_interval:
            outcomes = [Ship.MAY_NOT] * len(faults)
        is_decided = grounds.has_rubric_requirement or (grounds.has_requirement and name not in grounds.lone_models)
        outcome = whole_outcome([*outcomes, *of_rule, *([Ship.MAY] if is_decided else [])])
        reasons = [_Reason(check.reason, check.case_count) for check in checked if check.outcome is outcome]
        if not grounds.requirements.is_by_interval and outcome is Ship.MAY_NOT:
            reasons = [_Reason(fault.brief) for fault in faults]
        rules = [reason for of, reason in by_rule if of is outcome]
        rules += [_Reason(ALONE)] if outcome is Ship.NO_GATE and grounds.has_requirement else []
        # Failed gates first, then the rule against the baseline: they say more than a mean.
        gates = [reason for reason in reasons if "gate" in reason.words]
        means = [reason for reason in reasons if "gate" not in reason.words]
        more = [requirement.more_count for requirement in checked if requirement.outcome is Ship.UNDECIDED]
        is_open = outcome is Ship.UNDECIDED and None not in more and more and not rules
        yield ModelVerdict(
            name,
            outcome,
            tuple(_clauses([*gates, *rules, *means])),
            row,
            weakest_words(grounds.criteria, name),
            max(count or 0 for count in more) if is_open else None,
            tuple(_unscored_criteria(grounds.criteria, name)),
        )


def _unscored_criteria(criteria: Sequence[Row], model: str) -> Iterator[str]:
    """Required criteria with a weight that no output of a model has a score on."""
    for row in criteria:
        if model_name(row) == model and row["weight"] and row["is_required"] and row.get("n") == 0:
            yield row["criterion_id"]


class _Reason(NamedTuple):
    """Reason of an outcome, as a clause. case_count: cases that are too few to decide, if that is the reason."""

    words: str
    case_count: int | None = None


def _clauses(reasons: Sequence[_Reason]) -> Iterator[str]:
    """Clauses of reasons; reasons with the same case_count are joined."""
    for case_count, of_count in groupby(reasons, key=lambda reason: reason.case_count):
        clauses = [reason.words for reason in of_count]
        yield from clauses if case_count is None else [open_words(case_count, clauses)]


def _rule_outcomes(unmet: Sequence[Unmet], model: str) -> Iterator[tuple[Ship, _Reason]]:
    """Outcome of a model by requirements of the run, with the reason of each: its own, or that of all models."""
    for requirement in unmet:
        if requirement.model is None and not requirement.refused:
            yield Ship.UNDECIDED if requirement.is_undecided else Ship.MAY_NOT, _Reason(requirement.brief)
        if requirement.model is None:
            for refusal in requirement.refused:
                if refusal.model == model:
                    yield refusal.outcome, _Reason(refusal.words, refusal.case_count)


def weakest_words(criteria: Sequence[Row], model: str) -> str | None:
    """Criterion with the lowest mean, and that mean, among a model's criteria with a positive weight."""
    rows = [row for row in criteria if model_name(row) == model and row.get("mean") is not None]
    rows = [row for row in rows if (row["weight"] or 0.0) > 0 and not row["is_gate"]]
    if not rows:
        return None
    lowest = min(rows, key=lambda row: row["mean"])
    return f"{lowest['criterion_id']} {score_words(lowest['mean'])}"


def question_words(description: str | None, most: int = LONGEST_QUESTION) -> str:
    """A criterion's question on one line: its first sentence, cut between words."""
    question = " ".join((description or "").split())
    sentence_ends = [position + 1 for mark in "?." if (position := question.find(f"{mark} ")) > 0]
    question = question[: min(sentence_ends)] if sentence_ends else question
    return question if len(question) <= most else f"{question[: most - 1].rsplit(' ', 1)[0]}…"


def _shipping_clause(grounds: Grounds, models: Sequence[ModelVerdict]) -> str:
    """Clause on shipping: the models that may, those that can't be decided, and why others may not."""
    by_outcome: dict[Ship, list[ModelVerdict]] = {}
    for verdict in models:
        by_outcome.setdefault(verdict.outcome, []).append(verdict)
    names = [verdict.model for verdict in models]
    if not grounds.has_requirement:
        why = _undecided_words(grounds)
        return (
            f"Nothing decides whether {_join_first(names)} may ship: {why}" if names else f"Nothing is decided: {why}"
        )
    if not models:
        return f"No model may ship: {' and '.join(requirement.brief for requirement in grounds.unmet)}"
    clauses = []
    if may := by_outcome.get(Ship.MAY):
        clauses.append(f"{_join_first([verdict.model for verdict in may])} may ship{_basis_clause(grounds)}")
        if len(may) == len(models):
            clauses[0] += f": {_met_words(grounds)}"
    if undecided := by_outcome.get(Ship.UNDECIDED):
        clauses.append(_undecided_clause(grounds, undecided, is_first=not may))
    if lone := by_outcome.get(Ship.NO_GATE):
        clauses.append(f"nothing decides on {_join_first([verdict.model for verdict in lone])}: {ALONE}")
    if bad := by_outcome.get(Ship.MAY_NOT):
        clauses.append(_refused_clause(grounds, bad, is_alone=len(bad) == len(models)))
    sentence = "; ".join(clauses)
    has_name_first = may or (not undecided and bad and len(bad) == 1)
    return sentence if has_name_first else f"{sentence[:1].upper()}{sentence[1:]}"


def _basis_clause(grounds: Grounds) -> str:
    """Clause on the ground of the decision about models that may ship."""
    gate_clause = " under --gate baseline" if grounds.gate == "baseline" else ""
    if not grounds.has_rubric_requirement:
        return gate_clause
    alpha = grounds.requirements.alpha
    return (
        f"{gate_clause} at alpha {alpha:g}"
        if grounds.requirements.is_by_interval
        else f"{gate_clause} by point estimates"
    )


def _met_words(grounds: Grounds) -> str:
    """Clause on the requirements that models that may ship meet."""
    if not grounds.has_rubric_requirement:
        return "the rule against the baseline is met"
    is_shown = grounds.requirements.is_by_interval
    threshold_words = "the pass_threshold" if grounds.requirements.low_means else "threshold"
    return f"every gate and {threshold_words} is {'shown to be met' if is_shown else 'met'}"


def _undecided_clause(grounds: Grounds, models: Sequence[ModelVerdict], *, is_first: bool) -> str:
    """Clause on models that can't be decided: with one reason if it is the same for all."""
    alpha = f" at alpha {grounds.requirements.alpha:g}" if grounds.requirements.checked and is_first else ""
    if len({(verdict.reasons, verdict.more_count) for verdict in models}) == 1:
        names = _join_first([verdict.model for verdict in models])
        return f"undecided{alpha} whether {names} may ship: {models[0].reason}"
    return f"undecided{alpha}: {_models_with_reasons(models)}"


def _refused_clause(grounds: Grounds, models: Sequence[ModelVerdict], *, is_alone: bool) -> str:
    """Clause on models that may not ship. is_alone: whether no other model may ship or is undecided."""
    of_run = [
        requirement.brief
        for requirement in grounds.unmet
        if requirement.model is None and not requirement.is_undecided and not requirement.refused
    ]
    if len(models) == 1:
        return f"{models[0].model} may not{' ship' if is_alone else ''}: {models[0].reason}"
    if is_alone and of_run:
        own_verdicts = [
            replace(verdict, reasons=tuple(reason for reason in verdict.reasons if reason not in of_run))
            for verdict in models
        ]
        own_verdicts = [verdict for verdict in own_verdicts if verdict.reasons]
        return "; ".join(
            filter(None, [f"no model may ship: {' and '.join(of_run)}", _models_with_reasons(own_verdicts)])
        )
    return f"{'no model may ship' if is_alone else 'these may not'}: {_models_with_reasons(models)}"


def _undecided_words(grounds: Grounds) -> str:
    """Reason why no requirement counts for a run."""
    match grounds.gate:
        case "none":
            return "no requirement counts under --gate none"
        case "baseline":
            has_rule = gate_rule(grounds.settings.get("fail_if"), grounds.settings.get("require")) is not None
            missing_clause = (
                "there is no run to compare with" if has_rule else "neither --fail-if nor --require was given"
            )
            return f"--gate baseline counts only the rule against a baseline, and {missing_clause}"
    gate_clause = ", and --gate rubric counts nothing else" if grounds.gate == "rubric" else ""
    return f"the rubric has no gate and no pass_threshold{gate_clause}"


def _models_with_reasons(models: Sequence[ModelVerdict]) -> str:
    """Text that names the first models with their reasons, and the count of the others."""
    texts = [f"{verdict.model} ({verdict.reason})" for verdict in models[:MOST_NAMED]]
    return ", ".join([*texts, *([f"{len(models) - MOST_NAMED:,} more"] if len(models) > MOST_NAMED else [])])


def _low_mean_clauses(grounds: Grounds, models: Sequence[ModelVerdict]) -> Iterator[str]:
    """Clause on means below a threshold that the rubric does not require, of models that are not refused."""
    names = {verdict.model for verdict in models if verdict.outcome is not Ship.MAY_NOT}
    low = [(name, clause) for name, clause in grounds.requirements.low_means if name in names]
    if low:
        texts = [f"{clause} of {name}" if len(models) > 1 else clause for name, clause in low[:MOST_NAMED]]
        more = f" and {len(low) - MOST_NAMED:,} more" if len(low) > MOST_NAMED else ""
        yield f"under a criterion's own threshold, which the rubric does not require: {', '.join(texts)}{more}"


def _missing_clauses(grounds: Grounds) -> Iterator[str]:
    if grounds.has_missed_judge:
        yield "the judged criteria are unscored, as the run had no --judge"
    if grounds.gaps:
        yield f"no output of a model is scored on {_join_first(grounds.gaps)}"


def _change_clauses(grounds: Grounds, models: Sequence[ModelVerdict]) -> Iterator[str]:
    """Clauses that compare with the baseline (better, worse, no difference), unless the reasons say so already."""
    if grounds.comparison is None or not grounds.is_against_baseline:
        return
    baseline = grounds.comparison.baseline_run_id
    yield from _judges_clauses(grounds.comparison.judges, models)
    by_outcome: dict[Chance | str, list[str]] = {}
    for pair in grounds.comparison.models:
        by_outcome.setdefault(_outcome_of(pair), []).append(pair.name)
    unseen = _unseen_words(grounds.comparison)
    beyond = "beyond chance on new cases" if stopped_by_suite(grounds.run) else "beyond chance"
    sentences: dict[Chance | str, str] = {
        UNCHANGED: f"every output and verdict is that of {baseline}",
        SAME_CRITERIA: f"outputs and verdicts are those of {baseline} on every criterion that both versions have",
        LEFT_OPEN: f"missing scores leave open whether it differs from {baseline}",
        Chance.BELOW: f"worse than {baseline} {beyond}",
        Chance.ABOVE: f"better than {baseline} {beyond}",
        EQUAL: f"every overall score is that of {baseline}",
        Chance.WITHIN: f"{_same_words(grounds.comparison)}no overall difference from {baseline} {beyond}{unseen}",
        Chance.UNKNOWN: f"no overall difference from {baseline} can be tested",
    }
    if all(any(WORSE in reason for reason in verdict.reasons) for verdict in models) and len(by_outcome) == 1:
        sentences[Chance.BELOW] = f"the baseline is {baseline}"
    for outcome, text in sentences.items():
        if outcome in by_outcome:
            yield text if len(by_outcome) == 1 else f"{_join_first(by_outcome[outcome])}: {text}"
    yield from _baseline_clauses(grounds, grounds.comparison)


def _baseline_clauses(grounds: Grounds, comparison: RunComparison) -> Iterator[str]:
    """Models that are not compared, and what else a reader of the comparison has to know of the baseline."""
    baseline = comparison.baseline_run_id
    for side, other_run in (("A", "this run"), ("B", baseline)):
        if names := _lone_models(comparison, side):
            be, such = ("is", "such model") if len(names) == 1 else ("are", "such models")
            yield f"{_join_first(names)} {be} not compared: {other_run} has no {such}"
    if failed := [*grounds.settings.get("baseline_failed_models", ())]:
        yield f"{baseline} did not meet the gates of {_join_first(failed)}"
    if comparison.cases is not None:
        yield f"the cases changed: {comparison.cases}"
    if (stopped := stopped_words(grounds.run)) is not None:
        yield stopped


def _judges_clauses(difference: str | None, models: Sequence[ModelVerdict]) -> Iterator[str]:
    """Clause on different judges, with their difference unless a model's reason has it."""
    if difference is not None:
        is_reason = any(difference in reason for verdict in models for reason in verdict.reasons)
        how = "" if is_reason else f" ({difference})"
        yield f"the comparison is across judges, which may be the whole difference{how}"


def _lone_models(comparison: RunComparison, side: str) -> list[str]:
    """Models that only run A or only run B has. side: A or B."""
    suffix = f": only in run {side}"
    return [description.removesuffix(suffix) for description in comparison.alone if description.endswith(suffix)]


def _outcome_of(pair: ComparedModels) -> Chance | str:
    overall = overall_row(pair.rows)
    if are_unchanged(pair.rows):
        return UNCHANGED if overall is not None else SAME_CRITERIA
    if overall is None:
        return Chance.UNKNOWN
    if overall.outcome is Chance.WITHIN and not overall.figures.better_count + overall.figures.worse_count:
        return EQUAL
    return LEFT_OPEN if overall.outcome is Chance.UNKNOWN and overall.is_left_open else overall.outcome


def _overall_rows(comparison: RunComparison) -> list[ComparedRow]:
    """Rows of the overall scores of all pairs of models; none of a pair whose rubrics differ."""
    return [row for pair in comparison.models if (row := overall_row(pair.rows)) is not None]


def _same_words(comparison: RunComparison) -> str:
    """Words on the outputs of the only model that did not change; "" if there are several models, or no such output."""
    rows = _overall_rows(comparison)
    same = unchanged_words(rows[0]) if len(rows) == 1 else None
    return "" if same is None else f"{same}: "


def _unseen_words(comparison: RunComparison) -> str:
    """Clause on differences that are too small to detect with so few cases, if the rule does not allow them."""
    rows = _overall_rows(comparison)
    rows = [row for row in rows if row.outcome is Chance.WITHIN and row.figures.detectable_diff is not None]
    if not rows:
        return ""
    figures = max((row.figures for row in rows), key=lambda figures: figures.detectable_diff or 0.0)
    margin = None if comparison.gate is None else comparison.gate.rule.margin
    if (figures.detectable_diff or 0.0) <= (MOST_MARGIN if margin is None else margin):
        return ""
    cases = counted(figures.case_count, "case")
    return f", but {cases} can only show one of {score_words(figures.detectable_diff)} or more"


def _doubt_clauses(standings: Sequence[JudgeStanding]) -> Iterator[str]:
    """Criteria on which the judge is no better than chance."""
    doubted = [standing for standing in standings if standing.trust is Trust.CHANCE]
    if doubted:
        names = _join_first([standing.criterion_id for standing in doubted])
        rated = min(standing.pair_count for standing in doubted)
        yield f"but the judge is no better than chance on {names}, as far as {counted(rated, 'rating')} show"


def _reason_facts(models: Sequence[ModelVerdict]) -> Iterator[Fact]:
    """Facts with all reasons of a model, if a line can't name them all."""
    for verdict in models:
        if len(verdict.reasons) > MOST_REASONS and verdict.outcome is not Ship.MAY:
            sentence = f"{verdict.model} {'is ' if verdict.outcome is Ship.UNDECIDED else ''}{verdict.outcome.value}"
            figures = {"model": verdict.model, "reasons": list(verdict.reasons)}
            yield Fact("reasons", f"{sentence}: {'; '.join(verdict.reasons)}.", figures)


def _threshold_facts(grounds: Grounds) -> Iterator[Fact]:
    """Facts on models whose interval of the mean contains the rubric's threshold."""
    if grounds.pass_threshold is None or not grounds.has_rubric_requirement or grounds.requirements.is_by_interval:
        return
    rows = [row for row in grounds.scores if row["ci_low"] is not None]
    rows = [row for row in rows if row["ci_low"] < grounds.pass_threshold <= row["ci_high"]]
    if rows:
        names = [f"{model_name(row)} ({interval_words(row['ci_low'], row['ci_high'])})" for row in rows]
        sentence = f"The 95% interval of the mean holds {grounds.pass_threshold:g} for {_join_first(names)}"
        intervals = {model_name(row): [row["ci_low"], row["ci_high"]] for row in rows}
        yield Fact("interval", f"{sentence}: more cases would tell on which side it is.", {"intervals": intervals})


def _gap_facts(grounds: Grounds) -> Iterator[Fact]:
    if grounds.gaps:
        sentence = (
            f"No output of a model is scored on {_join_first(grounds.gaps)}, so overall scores are missing or partial."
        )
        yield Fact("gaps", sentence, {"criteria": grounds.gaps})


def _penalty_facts(grounds: Grounds) -> Iterator[Fact]:
    """Outputs without a score because nothing gives points."""
    counts_of_models = [
        f"{row['output_count']:,} of {row['of_count']:,} of {model_name(row)}" for row in grounds.penalised
    ]
    if counts_of_models:
        sentence = f"Outputs without a score, as their criteria only take points: {_join_first(counts_of_models)}."
        counts = {model_name(row): row["output_count"] for row in grounds.penalised}
        yield Fact("penalties", sentence, {"outputs": counts})


def _change_facts(grounds: Grounds) -> Iterator[Fact]:
    if grounds.comparison is None:
        return
    for pair in grounds.comparison.models[:MOST_PAIRS]:
        if grounds.is_against_baseline and _outcome_of(pair) in (UNCHANGED, SAME_CRITERIA):
            continue  # the third line says so
        if any(row.figures.n for row in pair.rows) or (pair.rows and grounds.is_against_baseline):
            yield change_fact(pair.name, pair.rows, *_side_names(grounds, pair))
        yield from missing_facts(pair.name, pair.rows)


def _side_names(grounds: Grounds, pair: ComparedModels) -> tuple[str, str]:
    """Names of B and A."""
    comparison, row = grounds.comparison, pair.rows[0]
    if comparison is None or not grounds.is_against_baseline:
        return row.model_b, row.model_a
    model_a = "" if row.model_a == row.model_b else f"{row.model_a} in "
    return row.model_b, f"{model_a}{comparison.baseline_run_id}"


def _gate_facts(grounds: Grounds, sentence: str) -> Iterator[Fact]:
    """Facts on how often each gate failed, unless the sentence says so already."""
    for criterion_id, rows in _rows_by_criterion(row for row in grounds.criteria if row["is_gate"]).items():
        gate_rows = [
            (model_name(row), row["n"], round(row["n"] * (1 - row["pass_rate"]))) for row in rows if row.get("n")
        ]
        failures = [f"{count:,} of {counted(n, 'output')} of {name}" for name, n, count in gate_rows if count]
        is_stated = all(f"{count:,} of {counted(n, 'output')} fail" in sentence for _, n, count in gate_rows if count)
        if failures and not is_stated:
            more = f" and of {counted(len(failures) - MOST_NAMED, 'more model')}" if len(failures) > MOST_NAMED else ""
            fact = f"The gate {criterion_id} fails for {', '.join(failures[:MOST_NAMED])}{more}."
            yield Fact("gates", fact, {"criterion_id": criterion_id, "failures": {name: n for name, _, n in gate_rows}})


def _decision_facts(grounds: Grounds, models: Sequence[ModelVerdict], headline: str) -> Iterator[Fact]:
    """Facts on whether intervals or point estimates decide, and on why models may ship, unless `headline` says so."""
    if not grounds.has_rubric_requirement:
        return
    if not grounds.requirements.is_by_interval:
        sentence = (
            "Decided by point estimates, which have no error rate: with the line `decide: interval` a rubric decides "
            "on the ends of intervals."
        )
        yield Fact("decision", sentence, {"decide": "point"})
        return
    alpha = grounds.requirements.alpha
    sentence = (
        f"Decided on the ends of intervals: at its limit, a requirement passes with a chance of {alpha:g} (alpha)."
    )
    yield Fact("decision", sentence, {"decide": "interval", "alpha": alpha})
    shipping = [verdict for verdict in models if verdict.outcome is Ship.MAY and verdict.reasons]
    for verdict in [verdict for verdict in shipping if verdict.reason not in headline][:MOST_NAMED]:
        reasons = "; ".join(verdict.reasons)
        yield Fact(
            "decision",
            f"{verdict.model} may ship: {reasons}.",
            {"decide": "interval", "model": verdict.model},
        )


def _judge_facts(grounds: Grounds) -> Iterator[Fact]:
    """Facts on whether the judge read whole prompts, and whether people's ratings support its verdicts."""
    if grounds.run.get("judge") is None:
        return
    if warnings := grounds.settings.get("warnings"):
        sentence = (
            "The judge may not have seen whole prompts, by token counts that can't be true: the first note has them."
        )
        yield Fact("judge", sentence, {"warnings": warnings})
    if not grounds.standings:
        yield Fact("judge", "Nobody rated what the judge scored, so how far to trust it is unknown.", {"criteria": {}})
        return
    by_trust: dict[Trust, list[JudgeStanding]] = {}
    for standing in grounds.standings:
        by_trust.setdefault(standing.trust, []).append(standing)
    statements = [standing_words(trust, by_trust[trust]) for trust in Trust if trust in by_trust]
    criteria = {standing.criterion_id: standing.trust.value for standing in grounds.standings}
    yield Fact("judge", f"The judge {'; it '.join(statements)}.", {"criteria": criteria})


def standing_words(trust: Trust, standings: Sequence[JudgeStanding]) -> str:
    """Statement on the criteria of one kind of trust, to follow `the judge`."""
    names = _join_first([standing.criterion_id for standing in standings])
    first_standing = standings[0]
    match trust:
        case Trust.CHANCE:
            return f"is no better than chance on {names}, as far as the ratings show ({_skill_words(first_standing)})"
        case Trust.WEAK:
            return (
                f"rarely agrees with people on {names} (same level in {rate_words(first_standing.rate)} of the pairs)"
            )
        case Trust.BIASED:
            return f"is {_leaning_words(standings)}"
        case Trust.UNKNOWN:
            if first_standing.has_many_chosen:
                rating_count = counted(first_standing.chosen_count, "rating")
                of_sample = f"has too few ratings of a random sample on {names} to tell"
                return f"{of_sample} ({rating_count} of outputs that a queue chose)"
            return f"has too few or too equal ratings on {names} to tell"
    return f"agrees with people beyond chance {_bias_words(standings)}"


def _bias_words(standings: Sequence[JudgeStanding]) -> str:
    """Clauses on criteria whose judge is shown to have a small bias, and on criteria without such evidence."""
    clauses = []
    if unbiased := [standing.criterion_id for standing in standings if standing.is_unbiased]:
        clauses.append(f"and with a bias under {MOST_BIAS:g} on {_join_first(unbiased)}")
    if unproven := [standing for standing in standings if not standing.is_unbiased]:
        names = [f"{standing.criterion_id}{_bias_interval(standing)}" for standing in unproven]
        clauses.append(f"on {_join_first(names)}, of which no bias is shown, nor that it is small")
    return "; ".join(clauses)


def _bias_interval(standing: JudgeStanding) -> str:
    bias = standing.bias
    if bias.value is None or bias.ci_low is None or bias.ci_high is None:
        return ""
    return f" (bias {signed_words(bias.value)}, {difference_interval_words(bias.ci_low, bias.ci_high)})"


def _skill_words(standing: JudgeStanding) -> str:
    skill = standing.skill
    name = "kappa" if "kappa" in skill.statistic else "rank correlation"
    interval = "" if skill.ci_low is None else f", {interval_words(skill.ci_low, skill.ci_high)}"
    return f"{name} {score_words(skill.value or 0.0)}{interval}, {counted(standing.pair_count, 'pair')}"


def _leaning_words(standings: Sequence[JudgeStanding]) -> str:
    names_by_leaning: dict[str, list[str]] = {}
    for standing in standings:
        leaning = standing.leaning
        if leaning is None:
            models = list(dict.fromkeys(row.name for row in standing.off))
            of_models = f"off for {_join_first(models)}"
            names_by_leaning.setdefault(of_models, []).append(standing.criterion_id)
        else:
            names_by_leaning.setdefault(f"more {leaning}" if leaning == "lenient" else "stricter", []).append(
                standing.criterion_id
            )
    return " and ".join(
        f"{leaning} on {_join_first(names)}"
        if leaning.startswith("off")
        else f"{leaning} than people on {_join_first(names)}"
        for leaning, names in names_by_leaning.items()
    )


def _next_steps(grounds: Grounds) -> Iterator[NextStep]:
    run_id = str(grounds.run["run_id"])
    if grounds.has_missed_judge:
        yield NextStep("name a judge: the same command with --judge MODEL; --dry-run shows the price first")
    for case_id in [row["case_ids"][0] for row in grounds.reading[:1]] if grounds.gaps else []:
        why = ("gradebook", "why", run_id, case_id, grounds.gaps[0])
        yield NextStep(f"see why {grounds.gaps[0]} is not scored, for example on case {case_id}", why, (case_id,))
    yield from _reading_steps(grounds, run_id)
    yield from _weakest_steps(grounds)
    if grounds.comparison is not None and grounds.is_against_baseline:
        yield from _more_cases_steps(grounds.comparison)
        yield NextStep("see what changed in full", ("gradebook", "compare", grounds.comparison.baseline_run_id, run_id))
    doubtful = [standing.criterion_id for standing in grounds.standings if standing.trust in (Trust.CHANCE, Trust.WEAK)]
    if doubtful:
        whose = "its" if len(doubtful) == 1 else "their"
        sentence = f"see where the judge and people differ on {_join_first(doubtful)}, and reword {whose} levels"
        yield NextStep(sentence, ("gradebook", "people", "agreement", run_id, "--criterion", doubtful[0]))
    elif grounds.run.get("judge") is not None:
        sentence = f"let people rate {'more' if grounds.standings else 'some'} outputs in the browser, a random sample"
        yield NextStep(sentence, ("gradebook", "people", "rate", run_id, "--n", "50"))


def _more_cases_steps(comparison: RunComparison) -> Iterator[NextStep]:
    """Step: add cases, if a margin is not shown although nothing is worse; with the number that would show it."""
    gate = comparison.gate
    margin = _MARGIN.search(gate.rule.require or "") if gate is not None and gate.is_failed else None
    overall = _overall_rows(comparison)
    if margin is None or not overall or any(row.outcome is not Chance.WITHIN for row in overall):
        return
    if all((row.figures.diff_low or 0.0) > -float(margin[1]) for row in overall):
        return  # the rule is not met for another reason
    pairs = counted(min(row.figures.n for row in overall), "pair")
    sd = max(row.figures.sd_diff or 0.0 for row in overall)
    command = ("gradebook", "suite", "power", "--sd", f"{sd:.3g}", "--margin", margin[1]) if sd else ()
    yield NextStep(f"compare more cases: {pairs} can't show a margin of {margin[1]}", command)


def _reading_steps(grounds: Grounds, run_id: str) -> Iterator[NextStep]:
    """Step: read cases of a model that may not ship, else of the model with the lowest mean."""
    cases = {model_name(row): row for row in grounds.reading}
    failing = [requirement.model for requirement in grounds.unmet if requirement.model in cases]
    lowest = [name for row in reversed(grounds.scores) if (name := model_name(row)) in cases]
    for name in (failing or lowest)[:1]:
        of_model = "" if len(grounds.scores) == 1 else f" of {name}"
        first_case, *further = cases[name]["case_ids"]
        which = "the worst" if cases[name]["are_failed"] else "the lowest-scoring"
        noun = f"cases{of_model}, such as the first" if further else f"case{of_model}"
        sentence = f"read {which} {noun} ({', '.join([first_case, *further])})"
        yield NextStep(sentence, ("gradebook", "why", run_id, first_case), (first_case, *further))


def _weakest_steps(grounds: Grounds) -> Iterator[NextStep]:
    """Step: work on the criterion that costs the models most of their score."""
    failing = {requirement.model for requirement in grounds.unmet if requirement.model is not None}
    rows = [row for row in grounds.criteria if row.get("mean") is not None and (row["weight"] or 0.0) > 0]
    rows = [row for row in rows if model_name(row) in failing] or rows
    if not rows:
        return
    # A criterion may apply to some of the outputs alone.
    row = max(rows, key=lambda row: row["weight"] * (1.0 - row["mean"]) * (row.get("output_count") or 1))
    if row["mean"] == 1.0:
        return
    question = question_words(row.get("description"))
    ending = f": {question}" if question else ""
    name = model_name(row)
    of_model = "" if len(grounds.scores) == 1 else f" {name}"
    lower = [other["criterion_id"] for other in rows if model_name(other) == name and other["mean"] < row["mean"]]
    be = "is" if len(lower) == 1 else "are"
    weighs = f"; {_join_first(lower)} {be} lower, with less weight" if lower else ""
    mean = score_words(row["mean"])
    yield NextStep(f"work on {row['criterion_id']}, which costs{of_model} most score (mean {mean}{weighs}){ending}")


def _rows_by_criterion(rows: Iterator[Row]) -> dict[str, list[Row]]:
    rows_of: dict[str, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(row["criterion_id"], []).append(row)
    return rows_of


def _join_first(names: Sequence[str]) -> str:
    """Names joined by commas and `and`, at most `MOST_NAMED` of them."""
    listed = [*names[:MOST_NAMED], *([f"{len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else [])]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""
