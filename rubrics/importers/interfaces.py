"""What an importer gives and an exporter takes, whatever the foreign format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradebook.rubrics.model.rubric import Rubric

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """What a foreign file holds, in gradebook's shapes.

    rubric: the keys of a rubric file; None where each case brings its own criteria. cases: rows as in a file of
    outputs (`case_id`, `prompt`, `criteria`, ...), without `output` and `model` where the file has no answers.
    ratings: rows as in a file of ratings. kept: what the format has and gradebook has no place for, in words; it
    stands under `metadata`.
    """

    rubric: Row | None = None
    cases: tuple[Row, ...] = ()
    ratings: tuple[Row, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """A foreign file's text; lost: what gradebook has and the format has no place for, in words."""

    text: str
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """A foreign format. source: what `write` takes: a rubric, or the rows of cases with criteria of their own.

    read: (the file's text, its path for messages) -> what it holds; raises `RubricError` with every fault and line.
    """

    name: str
    summary: str
    suffix: str
    source: Literal["rubric", "cases"]
    read: Callable[[str, str], Imported]
    write: Callable[[Rubric], Exported] | Callable[[Sequence[Row]], Exported]
