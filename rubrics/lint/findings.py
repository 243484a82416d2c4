"""What lint says of a rubric, and the rules by which it says it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place

Severity = Literal["error", "warning", "note"]  # a note asks for nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of lint. mend: what to do about it, where a finding has nothing nearer to say."""

    id: str
    severity: Severity
    summary: str
    mend: str


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule found at a place of a rubric: "found .., expected ..". mend: empty where the rule's own will do."""

    place: Place
    message: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a rubric file. place: "criteria[2].levels[0]"; mend: what to do, one sentence."""

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
    """Make a rule known that no function of a rubric alone can find."""
    _RULES[rule.id] = rule
    return rule


def register_rule(rule_id: str, severity: Severity, mend: str) -> Callable[[FindRemarks], FindRemarks]:
    """Register the decorated function as a rule; its docstring's first line is the rule's summary."""

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
    """What every registered rule finds in a rubric."""
    for rule_id, find_remarks in _FINDERS.items():
        for remark in find_remarks(rubric):
            yield _RULES[rule_id], remark
