"""The verdict on a run or a comparison: a sentence to act on, the facts behind it and what to do next."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradebook.rubrics.statistics.release import Ship
from gradebook.rubrics.statistics.rules import CATEGORY, OVERALL
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.text.wording import counted, difference_interval_words, p_relation, signed_words
from gradebook.tasks.comparing.compare import Comparison
from gradebook.tasks.comparing.figures import ComparedRow, overall_row, worst_first
from gradebook.tasks.comparing.sentences import (
    imbalance_sentences,
    row_name,
    unchanged_sentence,
    unchanged_words,
)
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.system.shell import shell_line

MOST_NAMED = 3
MOST_REASONS = 3  # of a model
MOST_PAIRS = 3
_BRACKETS = re.compile(r"\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Fact:
    """Sentence with the figures that it states. topic: change, missing, gates or judge."""

    topic: str
    sentence: str
    figures: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextStep:
    """Step that a reader may take. words: of its command, without options that name the lake; empty: no command.

    case_ids: of the run's cases that the sentence names.
    """

    sentence: str
    words: tuple[str, ...] = ()
    case_ids: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """Sentence without the cases, for a page that links them."""
        return self.sentence.replace(f" ({', '.join(self.case_ids)})", "") if self.case_ids else self.sentence

    def as_json(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "command": self.command(), "case_ids": list(self.case_ids)}

    def command(self, lake_words: Sequence[str] = ()) -> str | None:
        """Command to paste. lake_words: options that name the lake."""
        return shell_line((*self.words, *lake_words)) if self.words else None


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """Verdict on one model of a run. reasons: clauses, the strongest first; of a model that may ship, what shows it.

    row: of run_scores. weakest: the counting criterion with the lowest mean, with that mean; None without one.
    more_count: further cases that would decide an undecided one, if they are like the ones so far. dead: required
    criteria that count, and of which no output of the model has a score.
    """

    model: str
    outcome: Ship
    reasons: tuple[str, ...]
    row: Row
    weakest: str | None = None
    more_count: int | None = None
    dead: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The reasons as one clause, the first ones in full."""
        more = len(self.reasons) - MOST_REASONS
        clauses = [*self.reasons[:MOST_REASONS], *([counted(more, "other reason")] if more > 0 else [])]
        has_comma = any("," in _BRACKETS.sub("", clause) for clause in clauses[:-1])
        comma = "," if len(clauses) > 2 or has_comma else ""
        clause = f"{comma} and ".join(filter(None, [", ".join(clauses[:-1]), *clauses[-1:]]))
        if self.more_count is not None:
            clause += f"; about {counted(self.more_count, 'more case')} like these would decide"
        return clause

    def as_json(self) -> dict[str, Any]:
        figures = {name: self.row.get(name) for name in ("mean", "ci_low", "ci_high")}
        verdict = {"model": self.model, "verdict": self.outcome.value, "reasons": list(self.reasons)}
        return verdict | figures | {"weakest": self.weakest, "more_cases": self.more_count}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Verdict on a run or a comparison. sentence: one that a lead can act on; is_good: None if nothing decides.

    lines: the sentence in parts, for a first screen: what may ship and why, what changed, how far to trust the judge.
    models: verdict on each, in the order of the scores.
    """

    sentence: str
    is_good: bool | None
    facts: tuple[Fact, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    lines: tuple[str, ...] = ()
    models: tuple[ModelVerdict, ...] = ()

    @property
    def word(self) -> str:
        """The verdict in one to four words, for a column of runs."""
        return outcomes_word([model.outcome for model in self.models])

    @property
    def details(self) -> tuple[Fact, ...]:
        """Facts that the lines do not state already."""
        stated = self.lines or (self.sentence,)
        return tuple(fact for fact in self.facts if not any(fact.sentence.rstrip(".") in line for line in stated))

    def as_json(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "word": self.word,
            "lines": list(self.lines),
            "models": [model.as_json() for model in self.models],
            "facts": [{"topic": fact.topic, "sentence": fact.sentence} | fact.figures for fact in self.facts],
            "next": [next_step.as_json() for next_step in self.next_steps],
        }


def outcomes_word(outcomes: Sequence[Ship]) -> str:
    """One word for the outcomes of all models of a run: their own, or how many may ship."""
    if len(set(outcomes)) == 1:
        return outcomes[0].value
    return f"{outcomes.count(Ship.MAY):,} of {len(outcomes):,} may ship" if outcomes else Ship.NO_GATE.value


def comparison_verdict(comparison: Comparison) -> RunVerdict:
    """Verdict on B against A, with the outcome of the gate if there is one."""
    run_a, run_b = (str(run["run_id"]) for run in (comparison.run_a, comparison.run_b))
    pairs = [(pair.name, pair.model_a, pair.model_b, pair.rows) for pair in comparison.models]
    facts = []
    for name, model_a, model_b, rows in pairs:
        a, b = (model_a, model_b) if run_a == run_b or model_a != model_b else (f"{model_a} in {run_a}", model_b)
        facts.append(change_fact(name, rows, b, a))
    sentence = f"{comparison.judges}, which may be the whole difference; " if comparison.judges else ""
    sentence += "" if all(row.is_paired for *_, rows in pairs for row in rows) else "over different cases, "
    sentence += "; ".join(fact.sentence.rstrip(".") for fact in facts[:MOST_PAIRS]) or "No pair of models is compared"
    sentence += f"; {counted(len(facts) - MOST_PAIRS, 'more pair')} below" if len(facts) > MOST_PAIRS else ""
    if comparison.gate is not None:
        sentence += f"; {comparison.gate.sentence}"
    outcomes = {_overall_outcome(rows) for *_, rows in pairs}
    is_good = False if Chance.BELOW in outcomes else True if Chance.ABOVE in outcomes else None
    if comparison.judges is not None:
        is_good = None  # the judge may be the whole difference
    if comparison.gate is not None:
        is_good = None if comparison.gate.is_undecided else not comparison.gate.is_failed
    facts += [fact for name, *_, rows in pairs for fact in missing_facts(name, rows)]
    return RunVerdict(f"{sentence}.", is_good, tuple(facts), tuple(_next_steps(comparison, run_a, run_b)))


def change_fact(name: str, rows: Sequence[ComparedRow], of_b: str, of_a: str) -> Fact:
    """How B differs from A beyond chance: overall, then the criteria that got worse or better."""
    overall = overall_row(rows)
    outcome = _overall_outcome(rows)
    changed = [row for row in worst_first(rows) if row.scope not in (OVERALL, CATEGORY) and row.outcome.is_beyond]
    worse = [row for row in changed if row.outcome is Chance.BELOW]
    better = [row for row in reversed(changed) if row.outcome is Chance.ABOVE]  # the largest first
    if overall is not None and outcome.is_beyond:
        figures = overall.figures
        interval = difference_interval_words(figures.diff_low, figures.diff_high)
        direction = "better" if outcome is Chance.ABOVE else "worse"
        sentence = (
            f"{of_b} is {direction} than {of_a} beyond chance: {signed_words(figures.mean_diff)} overall "
            f"({interval}, p {p_relation(figures.p)})"
        )
    elif overall is None and changed:
        sentence = f"{of_b} and {of_a} have no overall difference, as their rubrics differ"
    elif changed:
        sentence = f"{of_b} does not differ from {of_a} overall beyond chance{_power_clause(overall)}"
    else:
        sentence = f"{of_b} compared with {of_a}: {_uncapitalised(unchanged_sentence(rows)).rstrip('.')}"
    sentence += "".join(
        f"; {direction} on {_list_rows(named)}" for direction, named in (("worse", worse), ("better", better)) if named
    )
    same = None if overall is None else unchanged_words(overall)
    sentence += "" if same is None else f"; {same}"
    figures_of: Row = {"pair": name, "outcome": outcome.value, "worse": _scope_ids(worse), "better": _scope_ids(better)}
    if overall is not None:
        overall_figures = overall.figures
        figures_of |= {
            "mean_diff": overall_figures.mean_diff,
            "p": overall_figures.p,
            "detectable_diff": overall_figures.detectable_diff,
        }
    return Fact("change", f"{sentence}.", figures_of)


def missing_facts(name: str, rows: Sequence[ComparedRow]) -> Iterator[Fact]:
    """Rows of which one side lacks more scores than the other. name: of the pair of models."""
    for sentence in imbalance_sentences(rows):
        yield Fact("missing", sentence, {"pair": name})


def _overall_outcome(rows: Sequence[ComparedRow]) -> Chance:
    overall = overall_row(rows)
    return Chance.UNKNOWN if overall is None else overall.outcome


def _power_clause(overall: ComparedRow | None) -> str:
    if overall is None or overall.figures.detectable_diff is None:
        return ""
    return f" (a true difference of {overall.figures.detectable_diff:.3f} would be found four times in five)"


def _list_rows(rows: Sequence[ComparedRow]) -> str:
    changes = [f"{row_name(row)} ({signed_words(row.figures.mean_diff)})" for row in rows[:MOST_NAMED]]
    more = len(rows) - MOST_NAMED
    return ", ".join(changes) + (f" and {more:,} more" if more > 0 else "")


def _scope_ids(rows: Sequence[ComparedRow]) -> list[str]:
    return [row.scope_id for row in rows]


def _uncapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _next_steps(comparison: Comparison, run_a: str, run_b: str) -> list[NextStep]:
    lost = [case.case_id for pair in comparison.models if pair.explanation for case in pair.explanation.lost_most]
    steps = []
    rows = [row for pair in comparison.models for row in pair.rows]
    if not any(row.figures.n for row in rows):
        models = [] if len(comparison.models) != 1 else [comparison.models[0].model_a, comparison.models[0].model_b]
        sides = ("--model-a", models[0], "--model-b", models[1]) if models else ()
        again = ("gradebook", "compare", run_a, *(() if run_a == run_b else (run_b,)), *sides, "--unpaired")
        is_possible = any(row.counts.unpaired_count for row in rows)
        return [NextStep("compare the means over different cases", again)] if is_possible else []
    if lost:
        cases = ", ".join(dict.fromkeys(lost[:MOST_NAMED]))
        sentence = f"read the cases that lost most, such as the first ({cases})"
        steps.append(NextStep(sentence, ("gradebook", "why", run_b, lost[0])))
    against = () if run_a == run_b else ("--against", run_a)
    steps.append(NextStep("read both answers to each case side by side", ("gradebook", "report", run_b, *against)))
    return steps
