"""The rule about the version of a rubric that there was before."""

from collections.abc import Iterator

from gradebook.rubrics.files.semver import step_fault
from gradebook.rubrics.lint.findings import Remark, Rule, declare_rule
from gradebook.rubrics.model.rubric import Rubric

VERSION_STEP = declare_rule(
    Rule(
        "version-step",
        "error",
        "The version goes up by less than the changes since the version before ask for, or not at all.",
        "Give the rubric the next version.",
    )
)


def find_wrong_step(previous: Rubric, rubric: Rubric) -> Iterator[Remark]:
    """Hold the step from the previous version against the changes; another id is another rubric, and not looked at."""
    fault = step_fault(previous, rubric) if rubric.id == previous.id else None
    if fault:
        yield Remark(("version",), fault.message, f"Set version to {fault.expected}.")
