"""Lint findings, the registry of rules, and the rules of the parser.

A fault that the parser finds makes a file invalid as a rubric.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from gradebook.rubrics.model.errors import Fault
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place

Severity = Literal["error", "warning", "note"]  # a note requires no action


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of lint. mend: remedy for findings without a more specific remedy."""

    id: str
    severity: Severity
    summary: str
    mend: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Remark of a rule about a place of a rubric: "found .., expected ..". mend: remedy; empty: the rule's remedy."""

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
        location = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{location}: {self.severity} {self.rule}: {self.place + ': ' if self.place else ''}{self.message}"


FindRemarks = Callable[[Rubric], Iterator[Remark]]

_RULES: dict[str, Rule] = {}
_FINDERS: dict[str, FindRemarks] = {}


def declare_rule(rule: Rule) -> Rule:
    """Declare a rule whose check needs more than the rubric itself."""
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


_RULES_OF_THE_PARSER = (
    ("syntax", "The file is not YAML, or uses a part of YAML that rubrics do not support.", "Fix the YAML there."),
    ("unknown-key", "A key is not part of the format.", "Correct the key's spelling, or move it under metadata."),
    ("missing-key", "A required key is missing.", "Add the key."),
    ("wrong-value", "A value has the wrong type or is out of bounds.", "Write a value of the expected kind."),
    ("repeated-id", "An id is repeated within a list.", "Give the second entry an id of its own."),
    ("no-criteria", "The rubric has no criteria.", "Add a criterion under criteria."),
    ("no-method", "A criterion has no method.", "Give the criterion a method with a type."),
    ("unknown-method", "A method's type is unknown.", "Name one of the known methods."),
    ("unknown-check", "A check's name is unknown.", "Name a registered check."),
    ("check-settings", "A check's settings are invalid.", "Correct the check's settings."),
    (
        "unsafe-schema",
        "A schema is invalid or unreadable, refers to others than `schemas`, or has a pattern that RE2 rejects.",
        "Write out the schema or name it under schemas, with references within these and patterns that RE2 accepts.",
    ),
    ("gate-with-weight", "A gate has a weight.", "Remove the weight, or write gate: false."),
    (
        "penalty-with-threshold",
        "A criterion with a weight below 0 has a threshold.",
        "Remove the threshold, or turn the criterion into a gate.",
    ),
    ("no-weight", "No criterion has a weight above 0.", "Give at least one criterion a weight above 0."),
    (
        "unreachable-threshold",
        "A threshold is above the best score, or has no score to apply to.",
        "Lower the threshold to a possible score, or remove it.",
    ),
    (
        "no-levels",
        "A criterion for a judge or for people has fewer than two levels.",
        "Describe at least two levels, the worst first.",
    ),
    (
        "wrong-example",
        "An example of a judged criterion has a level that the criterion does not have.",
        "Name one of the criterion's levels.",
    ),
    ("wrong-scale", "A scale's points are invalid.", "Give min and max, or points, each number once."),
    (
        "category-tree",
        "The categories are not a tree, or one is unknown or empty.",
        "List each category once, with a criterion in it.",
    ),
    (
        "unknown-use",
        "An entry uses a criterion that the extended rubrics do not have.",
        "Name a criterion of a rubric under extends.",
    ),
    (
        "unknown-rubric",
        "The rubric extends one that can't be found or read.",
        "Name a shipped rubric or a file beside this one.",
    ),
)
INVALID = declare_rule(Rule("invalid", "error", "Any other fault found by the parser.", "Follow the message."))
for _id, _summary, _mend in _RULES_OF_THE_PARSER:
    declare_rule(Rule(_id, "error", _summary, _mend))
PARSER_RULES = ("invalid", *(entry[0] for entry in _RULES_OF_THE_PARSER))

_PLACE_OF_A_MESSAGE = re.compile(r"([a-z_]+(?:\[[0-9]+\]|\.[A-Za-z0-9_$-]+)*): ")


def find_by_fault(fault: Fault) -> LintFinding:
    """Convert a fault of the parser to a finding. Its message starts with the place, if it has one."""
    rule = known_rules().get(fault.rule, INVALID)
    match = _PLACE_OF_A_MESSAGE.match(fault.message)
    place = match[1] if match else ""
    message = fault.message[match.end() :] if match else fault.message
    return LintFinding(rule.id, rule.severity, fault.path, fault.line, place, message, rule.mend)
