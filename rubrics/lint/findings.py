"""Lint findings, and the registry of rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place

Severity = Literal["error", "warning", "note"]  # a note requires no action


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of lint. mend: remedy, for findings without a more specific one."""

    id: str
    severity: Severity
    summary: str
    mend: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Remark of a rule about a place of a rubric: "found .., expected ..". mend: remedy; empty for the rule's own."""

    place: Place
    message: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Fault of a rubric file. place: "criteria[2].levels[0]"; mend: remedy, one sentence."""

    rule: str
    severity: Severity
    path: str
    line: int | None
    place: str
    message: str
    mend: str

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.severity} {self.rule}: {self.place + ': ' if self.place else ''}{self.message}"


FindRemarks = Callable[[Rubric], Iterator[Remark]]

_RULES: dict[str, Rule] = {}
_FINDERS: dict[str, FindRemarks] = {}


def declare_rule(rule: Rule) -> Rule:
    """Declare a rule that needs more than a rubric to be found."""
    _RULES[rule.id] = rule
    return rule


def register_rule(rule_id: str, severity: Severity, mend: str) -> Callable[[FindRemarks], FindRemarks]:
    """Register the decorated function as a rule; the first line of its docstring is the rule's summary."""

    def register(find_remarks: FindRemarks) -> FindRemarks:
        summary = (find_remarks.__doc__ or "").partition("\n")[0]
        declare_rule(Rule(rule_id, severity, summary, mend))
        _FINDERS[rule_id] = find_remarks
        return find_remarks

    return register


def known_rules() -> dict[str, Rule]:
    """Every rule by its id."""
    return dict(_RULES)


def find_all(rubric: Rubric) -> Iterator[tuple[Rule, Remark]]:
    """Yield the remarks of every registered rule about a rubric."""
    for rule_id, find_remarks in _FINDERS.items():
        for remark in find_remarks(rubric):
            yield _RULES[rule_id], remark
