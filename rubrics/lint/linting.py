"""Lint: every fault of a rubric file, each with its line and its remedy."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from gradebook.rubrics.files.load import line_of, parse_rubric
from gradebook.rubrics.lint import findings, questions
from gradebook.rubrics.lint import rules as rubric_rules
from gradebook.rubrics.lint.findings import LintFinding, Remark, Rule, find_all, find_by_fault, known_rules
from gradebook.rubrics.lint.rules import OWN_FUNCTION, UNREVIEWED, VERSION_STEP, find_old_review, find_wrong_step
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import place_text
from gradebook.rubrics.text.yaml_lines import YamlText, read_yaml

FAMILIES = (findings, questions, rubric_rules)  # importing a module registers its rules


def lint_text(
    text: str | bytes,
    path: str,
    previous: Rubric | None = None,
    folder: Path | None = None,
    allows: Callable[[str], bool] = lambda _function: False,
    today: date | None = None,
) -> tuple[LintFinding, ...]:
    """Every finding about a rubric file, sorted by line, then rule; only parser faults if it does not parse.

    previous: version before this one, for the version step. folder: location of the files that the rubric may extend;
    None allows only shipped rubrics. allows: whether the environment lets a function, as `module.path:name`, run.
    today: reference date for the age of the weights' review; None: the age is not checked.
    """
    try:
        rubric = parse_rubric(text, path, folder)
    except RubricError as error:
        return _in_order(map(find_by_fault, error.faults))
    yaml_text = read_yaml(text, path)
    return _in_order(_finding(rule, remark, yaml_text) for rule, remark in _remarks(rubric, previous, allows, today))


def rules() -> tuple[Rule, ...]:
    """Every rule, including the parser's, sorted by id."""
    return tuple(rule for _, rule in sorted(known_rules().items()))


def _remarks(
    rubric: Rubric, previous: Rubric | None, allows: Callable[[str], bool], today: date | None
) -> Iterator[tuple[Rule, Remark]]:
    allowed = {index for index, name in rubric_rules.functions_of(rubric) if allows(name)}
    for rule, remark in find_all(rubric):
        if rule.id != OWN_FUNCTION or remark.place[1] not in allowed:
            yield rule, remark
    for remark in find_wrong_step(previous, rubric) if previous else ():
        yield VERSION_STEP, remark
    for remark in find_old_review(rubric, today) if today else ():
        yield UNREVIEWED, remark


def _finding(rule: Rule, remark: Remark, yaml_text: YamlText) -> LintFinding:
    line, place = line_of(yaml_text, remark.place), place_text(remark.place)
    return LintFinding(rule.id, rule.severity, yaml_text.path, line, place, remark.message, remark.mend or rule.mend)


def _in_order(findings: Iterator[LintFinding]) -> tuple[LintFinding, ...]:
    return tuple(
        sorted(findings, key=lambda finding: (finding.line or 0, finding.rule, finding.place, finding.message))
    )
