"""Input and output of importers and exporters, for all foreign formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Rubric


@dataclass(frozen=True, slots=True)
class Imported:
    """Content of a foreign file, in gradebook's shapes.

    rubric: keys of a rubric file; None if each case has its own criteria. others: further rubrics of the file. cases:
    rows as in an outputs file (`case_id`, `prompt`, `criteria`, ...), without `output` and `model` if the file has no
    answers. ratings: rows as in a ratings file. kept: content without a place in gradebook, in words; it is stored
    under `metadata`.
    """

    rubric: Row | None = None
    cases: tuple[Row, ...] = ()
    ratings: tuple[Row, ...] = ()
    kept: tuple[str, ...] = ()
    others: tuple[Row, ...] = ()

    @property
    def rubrics(self) -> tuple[Row, ...]:
        """Every rubric of the file."""
        return (self.rubric, *self.others) if self.rubric else self.others


@dataclass(frozen=True, slots=True)
class Exported:
    """Text of a foreign file; lost: content of gradebook without a place in the format, in words."""

    text: str
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """Foreign format. source: input of `write`: a rubric, or rows of cases with per-case criteria.

    read: (text of the file, its path for messages) -> its content; raises `RubricError` with every fault and line.
    """

    name: str
    summary: str
    suffix: str
    source: Literal["rubric", "cases"]
    read: Callable[[str, str], Imported]
    write: Callable[[Rubric], Exported] | Callable[[Sequence[Row]], Exported]
