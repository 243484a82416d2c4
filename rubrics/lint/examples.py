"""Rules about the examples shown to a judge."""

from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.model.methods import JudgedExample, JudgeMethod
from gradebook.rubrics.model.rubric import Rubric

LONGEST_EXAMPLE = 4_000  # characters


@register_rule("long-example", "note", "Shorten the example to the passages that decide its level.")
def find_long_examples(rubric: Rubric) -> Iterator[Remark]:
    """An example is long, and is paid for with every request."""
    for index, examples in _examples(rubric):
        for number, example in enumerate(examples):
            length = len(example.output) + len(example.prompt or "") + len(example.rationale or "")
            if length > LONGEST_EXAMPLE:
                message = f"found an example of {length} characters, expected at most {LONGEST_EXAMPLE}"
                yield Remark(("criteria", index, "method", "examples", number), message)


@register_rule("one-sided-examples", "note", "Add an example of another level, or remove them.")
def find_one_sided_examples(rubric: Rubric) -> Iterator[Remark]:
    """All examples have the same level, which biases a judge towards it."""
    for index, examples in _examples(rubric):
        levels = {example.level for example in examples}
        if len(levels) == 1:
            message = f"found examples of the level {levels.pop()} alone, expected two levels or more"
            yield Remark(("criteria", index, "method", "examples"), message)


def _examples(rubric: Rubric) -> Iterator[tuple[int, tuple[JudgedExample, ...]]]:
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, JudgeMethod):
            yield index, criterion.method.examples
