"""The verdict on a run or a comparison: a sentence to act on, the facts behind it and what to do next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.chance import Chance
from gradebook.rubrics.statistics.rules import CATEGORY, OVERALL
from gradebook.tasks.comparing.compare import Comparison
from gradebook.tasks.comparing.figures import ComparedRow, worst_first
from gradebook.tasks.comparing.sentences import (
    imbalance_sentences,
    overall_row,
    row_name,
    unchanged_sentence,
    unchanged_words,
)
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.system.number_format import difference_interval_words, p_relation, signed_words
from gradebook.tasks.system.shell import shell_line

MOST_NAMED = 3
MOST_PAIRS = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """Sentence with the figures that it states. topic: change, missing, gates or judge."""

    topic: str
    sentence: str
    figures: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextStep:
    """Step that a reader may take. words: of its command, without options that name the lake; empty: no command."""

    sentence: str
    words: tuple[str, ...] = ()

    def command(self, lake_words: Sequence[str] = ()) -> str | None:
        """Command to paste. lake_words: options that name the lake."""
        return shell_line((*self.words, *lake_words)) if self.words else None


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Verdict on a run or a comparison. sentence: one that a lead can act on; is_good: None if nothing decides."""

    sentence: str
    is_good: bool | None
    facts: tuple[Fact, ...] = ()
    next_steps: tuple[NextStep, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "facts": [{"topic": each.topic, "sentence": each.sentence} | each.figures for each in self.facts],
            "next": [{"sentence": each.sentence, "command": each.command()} for each in self.next_steps],
        }


def comparison_verdict(found: Comparison) -> RunVerdict:
    """Verdict on B against A, with the outcome of the gate if there is one."""
    run_a, run_b = (str(run["run_id"]) for run in (found.run_a, found.run_b))
    pairs = [(pair.name, pair.model_a, pair.model_b, pair.rows) for pair in found.models]
    facts = []
    for name, model_a, model_b, rows in pairs:
        a, b = (model_a, model_b) if run_a == run_b or model_a != model_b else (f"{model_a} in {run_a}", model_b)
        facts.append(change_fact(name, rows, b, a))
    words = f"{found.judges}, which may be the whole difference; " if found.judges else ""
    words += "" if all(row.is_paired for *_, rows in pairs for row in rows) else "over different cases, "
    words += "; ".join(fact.sentence.rstrip(".") for fact in facts[:MOST_PAIRS]) or "No pair of models is compared"
    words += f"; {counted(len(facts) - MOST_PAIRS, 'more pair')} below" if len(facts) > MOST_PAIRS else ""
    if found.gate is not None:
        words += f"; {found.gate.sentence}"
    outcomes = {_outcome(rows) for *_, rows in pairs}
    is_good = False if Chance.BELOW in outcomes else True if Chance.ABOVE in outcomes else None
    if found.judges is not None:
        is_good = None  # the judge may be the whole difference
    if found.gate is not None:
        is_good = None if found.gate.is_undecided else not found.gate.is_failed
    facts += [fact for name, *_, rows in pairs for fact in missing_facts(name, rows)]
    return RunVerdict(f"{words}.", is_good, tuple(facts), tuple(_next_steps(found, run_a, run_b)))


def change_fact(name: str, rows: Sequence[ComparedRow], of_b: str, of_a: str) -> Fact:
    """How B differs from A beyond chance: overall, then the criteria that got worse or better."""
    overall = overall_row(rows)
    outcome = _outcome(rows)
    changed = [row for row in worst_first(rows) if row.scope not in (OVERALL, CATEGORY) and row.outcome.is_beyond]
    worse = [row for row in changed if row.outcome is Chance.BELOW]
    better = [row for row in reversed(changed) if row.outcome is Chance.ABOVE]  # the largest first
    if overall is not None and outcome.is_beyond:
        figures = overall.figures
        interval = difference_interval_words(figures.diff_low, figures.diff_high)
        way = "better" if outcome is Chance.ABOVE else "worse"
        words = (
            f"{of_b} is {way} than {of_a} beyond chance: {signed_words(figures.mean_diff)} overall "
            f"({interval}, p {p_relation(figures.p)})"
        )
    elif overall is None and changed:
        words = f"{of_b} and {of_a} have no overall difference, as their rubrics differ"
    elif changed:
        words = f"{of_b} does not differ from {of_a} overall beyond chance{_power(overall)}"
    else:
        words = f"{of_b} compared with {of_a}: {_uncapitalised(unchanged_sentence(rows)).rstrip('.')}"
    words += "".join(f"; {way} on {_named(named)}" for way, named in (("worse", worse), ("better", better)) if named)
    same = None if overall is None else unchanged_words(overall)
    words += "" if same is None else f"; {same}"
    figures_of: Row = {"pair": name, "outcome": outcome.value, "worse": _ids(worse), "better": _ids(better)}
    if overall is not None:
        found = overall.figures
        figures_of |= {"mean_diff": found.mean_diff, "p": found.p, "detectable_diff": found.detectable_diff}
    return Fact("change", f"{words}.", figures_of)


def missing_facts(name: str, rows: Sequence[ComparedRow]) -> Iterator[Fact]:
    """Rows of which one side lacks more scores than the other. name: of the pair of models."""
    for sentence in imbalance_sentences(rows):
        yield Fact("missing", sentence, {"pair": name})


def _outcome(rows: Sequence[ComparedRow]) -> Chance:
    overall = overall_row(rows)
    return Chance.UNKNOWN if overall is None else overall.outcome


def _power(overall: ComparedRow | None) -> str:
    if overall is None or overall.figures.detectable_diff is None:
        return ""
    return f" (a true difference of {overall.figures.detectable_diff:.3f} would be found four times in five)"


def _named(rows: Sequence[ComparedRow]) -> str:
    words = [f"{row_name(row)} ({signed_words(row.figures.mean_diff)})" for row in rows[:MOST_NAMED]]
    more = len(rows) - MOST_NAMED
    return ", ".join(words) + (f" and {more:,} more" if more > 0 else "")


def _ids(rows: Sequence[ComparedRow]) -> list[str]:
    return [row.scope_id for row in rows]


def _uncapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _next_steps(found: Comparison, run_a: str, run_b: str) -> list[NextStep]:
    lost = [case.case_id for pair in found.models if pair.explanation for case in pair.explanation.lost_most]
    steps = []
    rows = [row for pair in found.models for row in pair.rows]
    if not any(row.figures.n for row in rows):
        models = [] if len(found.models) != 1 else [found.models[0].model_a, found.models[0].model_b]
        sides = ("--model-a", models[0], "--model-b", models[1]) if models else ()
        again = ("gradebook", "compare", run_a, *(() if run_a == run_b else (run_b,)), *sides, "--unpaired")
        is_possible = any(row.counts.unpaired_count for row in rows)
        return [NextStep("compare the means over different cases", again)] if is_possible else []
    if lost:
        named = ", ".join(dict.fromkeys(lost[:MOST_NAMED]))
        words = f"read the cases that lost most, such as the first ({named})"
        steps.append(NextStep(words, ("gradebook", "why", run_b, lost[0])))
    against = () if run_a == run_b else ("--against", run_a)
    steps.append(NextStep("read both answers to each case side by side", ("gradebook", "report", run_b, *against)))
    return steps
