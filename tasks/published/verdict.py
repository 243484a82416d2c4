"""The verdict on a published run: which model may ship and why, how far to trust that, and what to do next."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.chance import Chance
from gradebook.rubrics.statistics.rule_parser import NOT_WORSE
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.tasks.agreement.standing import MOST_BIAS, JudgeStanding, Trust
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.run_comparison import ComparedModels, RunComparison
from gradebook.tasks.comparing.stopping import stopped_by_suite, stopped_words
from gradebook.tasks.comparing.verdict import (
    MOST_NAMED,
    MOST_PAIRS,
    Fact,
    NextStep,
    RunVerdict,
    change_fact,
    missing_facts,
)
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.requirements import Unmet
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    interval_words,
    rate_words,
    score_words,
    signed_words,
)

LONGEST_QUESTION = 90
MOST_REASONS = 2  # of a model
UNCHANGED, LEFT_OPEN = "unchanged", "left open"  # outcomes of a comparison beside those of chance
_MARGIN = re.compile(rf"{NOT_WORSE}\(\s*([0-9.]+)\s*\)")


@dataclass(frozen=True, slots=True)
class Grounds:
    """Figures that a verdict rests on. The fields are those of `RunSummary`; gate: requirements that count."""

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

    @property
    def has_missed_judge(self) -> bool:
        """Whether criteria are unscored for want of a judge."""
        return any(row["reason"] == "no_judge" for row in self.unscored)

    @property
    def gaps(self) -> list[str]:
        """Weighted and required criteria that no output of a model is scored on, unless the run lacked its judge."""
        rows = [] if self.has_missed_judge else [row for row in self.criteria if row["weight"] and row["is_required"]]
        return list(dict.fromkeys(row["criterion_id"] for row in rows if row.get("n") == 0))

    @property
    def is_against_baseline(self) -> bool:
        """Whether another run is compared; a report without a baseline compares two models of the run itself."""
        return self.comparison is not None and self.comparison.baseline_run_id != self.run["run_id"]


def run_verdict(found: Grounds) -> RunVerdict:
    """Make the verdict; all decisions on chance come from the rows and standings themselves."""
    clauses = [_shipping(found), *_missing(found), *_change(found), *_doubt(found.standings)]
    is_good = not found.unmet if found.has_requirement else None
    if found.unmet and all(each.is_undecided for each in found.unmet):
        is_good = None
    sentence = f"{'; '.join(clauses)}."
    facts = (
        *_threshold_facts(found),
        *_gap_facts(found),
        *_penalty_facts(found),
        *_change_facts(found),
        *_gate_facts(found, sentence),
    )
    facts = (*facts, *_judge_facts(found))
    return RunVerdict(sentence, is_good, facts, tuple(_next_steps(found)))


def question_words(description: str | None, most: int = LONGEST_QUESTION) -> str:
    """A criterion's question on one line: its first sentence, cut between words."""
    words = " ".join((description or "").split())
    ends = [place + 1 for mark in "?." if (place := words.find(f"{mark} ")) > 0]
    words = words[: min(ends)] if ends else words
    return words if len(words) <= most else f"{words[: most - 1].rsplit(' ', 1)[0]}…"


def _shipping(found: Grounds) -> str:
    """Clause on shipping: the models that may, and the reasons why others may not."""
    names = [model_name(row) for row in found.scores]
    if not found.has_requirement:
        why = _undecided_words(found)
        return f"Nothing decides whether {_listed(names)} may ship: {why}" if names else f"Nothing is decided: {why}"
    of_run = [each for each in found.unmet if each.model is None]
    is_undecided = bool(of_run) and all(each.is_undecided for each in of_run)
    faults = {name: [each for each in found.unmet if each.model == name] for name in names}
    good, bad = [name for name in names if not faults[name]], [name for name in names if faults[name]]
    if is_undecided and good:
        also = f"; {', '.join(_named_faults(bad, faults))} may not" if bad else ""
        return f"Undecided whether {_listed(good)} may ship: {_reasons(of_run)}{also}"
    if found.unmet and len(names) == 1:
        return f"{names[0]} may not ship: {_reasons([*faults[names[0]], *of_run])}"
    return _decided(found, faults, of_run, good, bad)


def _decided(
    found: Grounds, faults: dict[str, list[Unmet]], of_run: Sequence[Unmet], good: Sequence[str], bad: Sequence[str]
) -> str:
    """Clause on several models, or on models that meet everything."""
    if of_run:
        return f"No model may ship: {'; '.join([_reasons(of_run), *_named_faults(bad, faults)])}"
    if not bad:
        what = "every gate and threshold" if found.has_rubric_requirement else "the rule against the baseline"
        under = " under --gate baseline" if found.gate == "baseline" else ""
        return f"{_listed(good)} may ship{under}: {what} is met"
    if len(bad) == 1:
        return f"{_listed(good)} may ship; {bad[0]} may not: {_reasons(faults[bad[0]])}"
    start = f"{_listed(good)} may ship; these may not" if good else "No model may ship"
    return f"{start}: {', '.join(_named_faults(bad, faults))}"


def _undecided_words(found: Grounds) -> str:
    """Why a run without a requirement that counts has none."""
    match found.gate:
        case "none":
            return "no requirement counts under --gate none"
        case "baseline":
            settings = json.loads(found.run.get("settings") or "{}")
            has_rule = gate_rule(settings.get("fail_if"), settings.get("require")) is not None
            missing = "there is no run to compare with" if has_rule else "neither --fail-if nor --require was given"
            return f"--gate baseline counts only the rule against a baseline, and {missing}"
    alone = ", and --gate rubric counts nothing else" if found.gate == "rubric" else ""
    return f"the rubric has no gate and no pass_threshold{alone}"


def _named_faults(names: Sequence[str], faults: dict[str, list[Unmet]]) -> list[str]:
    """The first models that may not ship, each with its reasons, and how many more there are."""
    named = [f"{name} ({_reasons(faults[name])})" for name in names[:MOST_NAMED]]
    return [*named, *([f"{len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else [])]


def _reasons(unmet: Sequence[Unmet]) -> str:
    # Failed gates first: they say more than a mean.
    first = sorted(unmet, key=lambda each: "gate" not in each.brief)
    words = [each.brief for each in first[:MOST_REASONS]]
    more = len(unmet) - MOST_REASONS
    return " and ".join(words) + (f", and {counted(more, 'other fault')}" if more > 0 else "")


def _missing(found: Grounds) -> Iterator[str]:
    if found.has_missed_judge:
        yield "the judged criteria are unscored, as the run had no --judge"


def _change(found: Grounds) -> Iterator[str]:
    """Better, worse or no different than the baseline, in a few words."""
    if found.comparison is None or not found.is_against_baseline:
        return
    baseline = found.comparison.baseline_run_id
    if found.comparison.judges is not None:
        yield f"the comparison is across judges, which may be the whole difference ({found.comparison.judges})"
    by_outcome: dict[Chance | str, list[str]] = {}
    for pair in found.comparison.models:
        by_outcome.setdefault(_outcome_of(pair), []).append(pair.name)
    beyond = "beyond chance on new cases" if stopped_by_suite(found.run) else "beyond chance"
    words: dict[Chance | str, str] = {
        UNCHANGED: f"every output and verdict is that of {baseline}",
        LEFT_OPEN: f"missing scores leave open whether it differs from {baseline}",
        Chance.BELOW: f"worse than {baseline} {beyond}",
        Chance.ABOVE: f"better than {baseline} {beyond}",
        Chance.WITHIN: f"no overall difference from {baseline} {beyond}",
        Chance.UNKNOWN: f"no overall difference from {baseline} can be tested",
    }
    for outcome, text in words.items():
        if outcome in by_outcome:
            yield text if len(by_outcome) == 1 else f"{_listed(by_outcome[outcome])}: {text}"
    if (stopped := stopped_words(found.run)) is not None:
        yield stopped


def _outcome_of(pair: ComparedModels) -> Chance | str:
    overall = next((row for row in pair.rows if row.scope == OVERALL), None)
    if pair.rows and all(row.is_unchanged for row in pair.rows):
        return UNCHANGED
    if overall is None:
        return Chance.UNKNOWN
    return LEFT_OPEN if overall.outcome is Chance.UNKNOWN and overall.is_left_open else overall.outcome


def _doubt(standings: Sequence[JudgeStanding]) -> Iterator[str]:
    """Criteria on which the judge is no better than chance."""
    found = [each for each in standings if each.trust is Trust.CHANCE]
    if found:
        names = _listed([each.criterion_id for each in found])
        rated = min(each.pair_count for each in found)
        yield f"but the judge is no better than chance on {names}, as far as {counted(rated, 'rating')} show"


def _threshold_facts(found: Grounds) -> Iterator[Fact]:
    """Models whose mean may be on either side of the rubric's threshold, as far as the interval shows."""
    if found.pass_threshold is None or not found.has_rubric_requirement:
        return
    rows = [row for row in found.scores if row["ci_low"] is not None]
    rows = [row for row in rows if row["ci_low"] < found.pass_threshold <= row["ci_high"]]
    if rows:
        names = [f"{model_name(row)} ({interval_words(row['ci_low'], row['ci_high'])})" for row in rows]
        words = f"The 95% interval of the mean holds {found.pass_threshold:g} for {_listed(names)}"
        intervals = {model_name(row): [row["ci_low"], row["ci_high"]] for row in rows}
        yield Fact("interval", f"{words}: more cases would tell on which side it is.", {"intervals": intervals})


def _gap_facts(found: Grounds) -> Iterator[Fact]:
    if found.gaps:
        words = f"No output of a model is scored on {_listed(found.gaps)}, so overall scores are missing or partial."
        yield Fact("gaps", words, {"criteria": found.gaps})


def _penalty_facts(found: Grounds) -> Iterator[Fact]:
    """Outputs without a score because nothing gives points."""
    named = [f"{row['output_count']:,} of {row['of_count']:,} of {model_name(row)}" for row in found.penalised]
    if named:
        words = f"Outputs without a score, as their criteria only take points: {_listed(named)}."
        counts = {model_name(row): row["output_count"] for row in found.penalised}
        yield Fact("penalties", words, {"outputs": counts})


def _change_facts(found: Grounds) -> Iterator[Fact]:
    if found.comparison is None:
        return
    for pair in found.comparison.models[:MOST_PAIRS]:
        if any(row.figures.n for row in pair.rows) or (pair.rows and found.is_against_baseline):
            yield change_fact(pair.name, pair.rows, *_sides(found, pair))
        yield from missing_facts(pair.name, pair.rows)


def _sides(found: Grounds, pair: ComparedModels) -> tuple[str, str]:
    """Names of B and A."""
    comparison, row = found.comparison, pair.rows[0]
    if comparison is None or not found.is_against_baseline:
        return row.model_b, row.model_a
    model_a = "" if row.model_a == row.model_b else f"{row.model_a} in "
    return row.model_b, f"{model_a}{comparison.baseline_run_id}"


def _gate_facts(found: Grounds, sentence: str) -> Iterator[Fact]:
    """How often each gate failed, where the sentence does not say so already."""
    for criterion_id, rows in _by_criterion(row for row in found.criteria if row["is_gate"]).items():
        failed = [(model_name(row), row["n"], round(row["n"] * (1 - row["pass_rate"]))) for row in rows if row.get("n")]
        named = [f"{count:,} of {counted(n, 'output')} of {name}" for name, n, count in failed if count]
        is_told = sentence.count(f"the gate {criterion_id}") == len(named)
        if named and not is_told:
            more = f" and of {counted(len(named) - MOST_NAMED, 'more model')}" if len(named) > MOST_NAMED else ""
            words = f"The gate {criterion_id} fails for {', '.join(named[:MOST_NAMED])}{more}."
            yield Fact("gates", words, {"criterion_id": criterion_id, "failures": {name: n for name, _, n in failed}})


def _judge_facts(found: Grounds) -> Iterator[Fact]:
    """Whether the judge read whole prompts, and is to be trusted where people rated."""
    if found.run.get("judge") is None:
        return
    if warnings := json.loads(found.run.get("settings") or "{}").get("warnings"):
        doubt = (
            "The judge may not have seen whole prompts, by token counts that can't be true: the first note has them."
        )
        yield Fact("judge", doubt, {"warnings": warnings})
    if not found.standings:
        yield Fact("judge", "Nobody rated what the judge scored, so how far to trust it is unknown.", {"criteria": {}})
        return
    by_trust: dict[Trust, list[JudgeStanding]] = {}
    for each in found.standings:
        by_trust.setdefault(each.trust, []).append(each)
    words = [standing_words(trust, by_trust[trust]) for trust in Trust if trust in by_trust]
    criteria = {each.criterion_id: each.trust.value for each in found.standings}
    yield Fact("judge", f"The judge {'; it '.join(words)}.", {"criteria": criteria})


def standing_words(trust: Trust, standings: Sequence[JudgeStanding]) -> str:
    """Statement on the criteria of one kind of trust, to follow `the judge`."""
    names = _listed([each.criterion_id for each in standings])
    first = standings[0]
    match trust:
        case Trust.CHANCE:
            return f"is no better than chance on {names}, as far as the ratings show ({_skill_words(first)})"
        case Trust.WEAK:
            return f"rarely agrees with people on {names} (same level in {rate_words(first.rate)} of the pairs)"
        case Trust.BIASED:
            return f"is {_leanings(standings)}"
        case Trust.UNKNOWN:
            return f"has too few or too equal ratings on {names} to tell"
    return f"agrees with people beyond chance {_bias_words(standings)}"


def _bias_words(standings: Sequence[JudgeStanding]) -> str:
    """Criteria by what is shown of the judge's bias: that it is small, or how large it may be."""
    words = []
    if unbiased := [each.criterion_id for each in standings if each.is_unbiased]:
        words.append(f"and with a bias under {MOST_BIAS:g} on {_listed(unbiased)}")
    if others := [each for each in standings if not each.is_unbiased]:
        shown = [f"{each.criterion_id}{_bias_interval(each)}" for each in others]
        words.append(f"on {_listed(shown)}, of which no bias is shown, nor that it is small")
    return "; ".join(words)


def _bias_interval(standing: JudgeStanding) -> str:
    bias = standing.bias
    if bias.value is None or bias.ci_low is None or bias.ci_high is None:
        return ""
    return f" (bias {signed_words(bias.value)}, {difference_interval_words(bias.ci_low, bias.ci_high)})"


def _skill_words(standing: JudgeStanding) -> str:
    found = standing.skill
    name = "kappa" if "kappa" in found.statistic else "rank correlation"
    interval = "" if found.ci_low is None else f", {interval_words(found.ci_low, found.ci_high)}"
    return f"{name} {score_words(found.value or 0.0)}{interval}, {counted(standing.pair_count, 'pair')}"


def _leanings(standings: Sequence[JudgeStanding]) -> str:
    ways: dict[str, list[str]] = {}
    for each in standings:
        way = each.leaning
        if way is None:
            ways.setdefault("off for some models", []).append(each.criterion_id)
        else:
            ways.setdefault(f"more {way}" if way == "lenient" else "stricter", []).append(each.criterion_id)
    return " and ".join(
        f"{way} on {_listed(names)}" if way.startswith("off") else f"{way} than people on {_listed(names)}"
        for way, names in ways.items()
    )


def _next_steps(found: Grounds) -> Iterator[NextStep]:
    run_id = str(found.run["run_id"])
    if found.has_missed_judge:
        yield NextStep("name a judge: the same command with --judge MODEL; --dry-run shows the price first")
    for case_id in [row["case_ids"][0] for row in found.reading[:1]] if found.gaps else []:
        why = ("gradebook", "why", run_id, case_id, found.gaps[0])
        yield NextStep(f"see why {found.gaps[0]} is not scored, for example on case {case_id}", why)
    yield from _to_read(found, run_id)
    yield from _weakest(found)
    if found.comparison is not None and found.is_against_baseline:
        yield from _more_cases(found.comparison)
        yield NextStep("see what changed in full", ("gradebook", "compare", found.comparison.baseline_run_id, run_id))
    doubtful = [each.criterion_id for each in found.standings if each.trust in (Trust.CHANCE, Trust.WEAK)]
    if doubtful:
        whose = "its" if len(doubtful) == 1 else "their"
        words = f"see where the judge and people differ on {_listed(doubtful)}, and reword {whose} levels"
        yield NextStep(words, ("gradebook", "agreement", run_id, "--criterion", doubtful[0]))
    elif found.run.get("judge") is not None:
        words = f"let people rate {'more' if found.standings else 'some'} outputs in the browser, a random sample"
        yield NextStep(words, ("gradebook", "rate", run_id, "--n", "50"))


def _more_cases(comparison: RunComparison) -> Iterator[NextStep]:
    """Where a margin is not shown although nothing is worse: the number of cases that would show it."""
    gate = comparison.gate
    margin = _MARGIN.search(gate.rule.require or "") if gate is not None and gate.is_failed else None
    overall = [row for pair in comparison.models for row in pair.rows if row.scope == OVERALL]
    if margin is None or not overall or any(row.outcome is not Chance.WITHIN for row in overall):
        return
    pairs = counted(min(row.figures.n for row in overall), "pair")
    sd = max(row.figures.sd_diff or 0.0 for row in overall)
    words = ("gradebook", "power", "--sd", f"{sd:.3g}", "--margin", margin[1]) if sd else ()
    yield NextStep(f"compare more cases: {pairs} can't show a margin of {margin[1]}", words)


def _to_read(found: Grounds, run_id: str) -> Iterator[NextStep]:
    """The cases to read, of a model that may not ship or else of the one with the lowest mean."""
    cases = {model_name(row): row for row in found.reading}
    failing = [each.model for each in found.unmet if each.model in cases]
    lowest = [name for row in reversed(found.scores) if (name := model_name(row)) in cases]
    for name in (failing or lowest)[:1]:
        of_model = "" if len(found.scores) == 1 else f" of {name}"
        first, *others = cases[name]["case_ids"]
        which = "the worst" if cases[name]["are_failed"] else "the lowest-scoring"
        noun = f"cases{of_model}, such as the first" if others else f"case{of_model}"
        words = f"read {which} {noun} ({', '.join([first, *others])})"
        yield NextStep(words, ("gradebook", "why", run_id, first))


def _weakest(found: Grounds) -> Iterator[NextStep]:
    """The criterion that costs most of the score of the models that need work."""
    failing = {each.model for each in found.unmet if each.model is not None}
    rows = [row for row in found.criteria if row.get("mean") is not None and (row["weight"] or 0.0) > 0]
    rows = [row for row in rows if model_name(row) in failing] or rows
    if not rows:
        return
    row = max(rows, key=lambda row: row["weight"] * (1.0 - row["mean"]))
    if row["mean"] == 1.0:
        return
    question = question_words(row.get("description"))
    asked = f": {question}" if question else ""
    of_model = "" if len(found.scores) == 1 else f" {model_name(row)}"
    yield NextStep(
        f"work on {row['criterion_id']}, which costs{of_model} most score (mean {score_words(row['mean'])}){asked}"
    )


def _by_criterion(rows: Iterator[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["criterion_id"], []).append(row)
    return found


def _listed(names: Sequence[str]) -> str:
    """Names joined by commas and `and`, at most `MOST_NAMED` of them."""
    shown = [*names[:MOST_NAMED], *([f"{len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
