"""Formats of other systems, by name; input and output of every importer and exporter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal

from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import Rubric


@dataclass(frozen=True, slots=True)
class Imported:
    """Content of a foreign file, in gradebook's shapes.

    rubric: keys of a rubric file; None if each case has its own criteria. others: further rubrics of the file. cases:
    rows as in an outputs file (`case_id`, `prompt`, `criteria`, ...), without `output` and `model` if the file has no
    answers. ratings: rows as in a ratings file. choices: people's choices between responses of a case, with `case_id`
    and `model` of the chosen response, the `others` in the same shape, and the `rater`. kept: phrases on content
    without a place in gradebook; it is stored under `metadata`.
    """

    rubric: Row | None = None
    cases: tuple[Row, ...] = ()
    ratings: tuple[Row, ...] = ()
    kept: tuple[str, ...] = ()
    others: tuple[Row, ...] = ()
    choices: tuple[Row, ...] = ()

    @property
    def rubrics(self) -> tuple[Row, ...]:
        """Every rubric of the file."""
        return (self.rubric, *self.others) if self.rubric else self.others


@dataclass(frozen=True, slots=True)
class Exported:
    """Text of a foreign file. lost: phrases on content of gradebook without a place in the format."""

    text: str
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """Foreign format. source: what a file becomes, and the input of `write`: a rubric, rows of cases with per-case
    criteria, or the results of an evaluator (outputs with scores).

    read: (text of the file, its path for messages) -> its content; raises `RubricError` with every fault and line.
    write: None for a format that is only read.
    """

    name: str
    summary: str
    suffix: str
    source: Literal["rubric", "cases", "results"]
    read: Callable[[str, str], Imported]
    write: Callable[[Rubric], Exported] | Callable[[Sequence[Row]], Exported] | None = None


FORMAT_NAMES = (
    "potato",
    "dataknobs",
    "dimensions",
    "scale",
    "healthbench",
    "tree",
    "prometheus",
    "checklist",
    "autorubric",
    "ifeval",
    "openai-graders",
    "openai-evals",
    "promptfoo",
    "deepeval",
    "lm-eval",
    "pairs",
    "inspect-scores",
    "tau-bench",
    "terminal-bench",
    "multichallenge",
    "advancedif",
)


@cache
def find_format(name: str) -> Format:
    """Find a format, one of `FORMAT_NAMES`. Raises `KeyError`."""
    if name not in FORMAT_NAMES:
        raise KeyError(name)
    format_: Format = import_module(f"gradebook.rubrics.importers.{name.replace('-', '_')}").FORMAT
    return format_


def written_formats() -> tuple[str, ...]:
    """Names of the formats that an export writes."""
    return tuple(name for name in FORMAT_NAMES if find_format(name).write is not None)
