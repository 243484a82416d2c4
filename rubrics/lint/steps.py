"""Rule about the step from the previous version of a rubric."""

from collections.abc import Iterator

from gradebook.rubrics.files.semver import step_fault
from gradebook.rubrics.lint.findings import Remark, Rule, declare_rule
from gradebook.rubrics.model.rubric import Rubric

VERSION_STEP = declare_rule(
    Rule(
        "version-step",
        "error",
        "The version increases by less than the changes since the previous version require, or not at all.",
        "Give the rubric the next version.",
    )
)


def find_wrong_step(previous: Rubric, rubric: Rubric) -> Iterator[Remark]:
    """Compare the version step with the changes; a rubric with another id is ignored."""
    fault = step_fault(previous, rubric) if rubric.id == previous.id else None
    if fault:
        yield Remark(("version",), fault.message, f"Set version to {fault.expected}.")
