"""Conversion of a person's mark to a level of the criterion, by rules without guessing.

The first rule that applies decides:

1. a value declared to mean "not applicable" is missing;
2. true and false are the best and the worst of two levels;
3. text that is a level's id or label, in any case, is that level;
4. if the ids of all levels are numbers, a number is the level of that id (4 and "4.0" are the id 4);
5. otherwise a number is a rank, from 1 for the worst level up to the number of levels, or a score of 0..1. The choice
   is made once for a criterion and a whole file: ranks if some number is above 1 and all are whole, scores if some
   number is a fraction or 0 and none is above 1. A file that has only 1 is ambiguous, and the user has to decide;
6. blank text, n/a, na, nan, null and not applicable are missing: no rating, and never a zero.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gradebook.rubrics.importers.ratings.columns import words_of
from gradebook.rubrics.importers.ratings.shapes import Kind, Misfit
from gradebook.rubrics.model.levels import Level

Numbers = Literal["auto", "rank", "score"]
Meaning = Literal["rank", "score", "id"]
Grade = tuple[str | None, float]  # a level's id, None for a score between levels; and the score, 0..1

NOT_APPLICABLE = frozenset({"", "n/a", "na", "nan", "null", "not applicable", "not_applicable", "not-applicable"})
TOLERANCE = 1e-9  # of a score that equals a level's
MOST_SHOWN_LEVELS = 12
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True, eq=False)  # identity as key: files name it many times
class Ladder:
    """Levels of a criterion, worst first, with the values that a mark may have.

    name: the criterion's id; question_digest: of the text that its raters read.
    """

    name: str
    levels: tuple[Level, ...]
    question_digest: str | None = None

    @cached_property
    def by_number(self) -> dict[float, Level]:
        """Levels by their ids as numbers; empty if any id is not a number."""
        numbers = [number_of(level.id) for level in self.levels]
        keyed = {number: level for number, level in zip(numbers, self.levels, strict=True) if number is not None}
        return keyed if len(keyed) == len(self.levels) else {}

    @cached_property
    def _by_text(self) -> dict[str, Level | None]:
        """Levels by id, and by label unless it equals an id; None for a label of several levels."""
        ids: dict[str, Level | None] = {level.id: level for level in self.levels}
        return _unique((level.label, level) for level in self.levels if level.label) | ids

    @cached_property
    def _by_plain_text(self) -> dict[str, Level | None]:
        """Levels by folded id and label; None for an ambiguous text."""
        return _unique((folded(text), level) for level in self.levels for text in (level.id, level.label) if text)

    def grade(self, value: Any, kind: Kind, meaning: Meaning, missing: frozenset[str]) -> Grade | None:
        """Level and score of a value; None if it means "not applicable". Raises `Misfit`."""
        if value is None or (missing and _declared(value) in missing):
            return None
        if kind == "score":
            return None if _is_not_applicable(value) else self._bare_score(value)
        level = self._level_of(value)
        if level is None and kind == "value" and meaning != "id":
            number = number_of(value)
            if number is not None:
                return self._ranked(number, value) if meaning == "rank" else self._scored(number, value)
        if level is None and _is_not_applicable(value):
            return None
        if level is None:
            raise Misfit(f"{self.name}: found {words_of(value)}, expected {self._expected}")
        return level.id, level.score

    def open_number(self, value: Any, kind: Kind, missing: frozenset[str]) -> float | None:
        """Number whose meaning depends on the whole file; None if the value is not such a number."""
        if kind != "value" or self.by_number or (missing and _declared(value) in missing):
            return None
        return None if self._level_of(value) is not None else number_of(value)

    def _level_of(self, value: Any) -> Level | None:
        if isinstance(value, bool):
            return self.levels[-1 if value else 0] if len(self.levels) == 2 else None
        if isinstance(value, str):
            found = self._by_text.get(value) or self._by_plain_text.get(folded(value))
            if found is not None:
                return found
        number = number_of(value)
        return None if number is None else self.by_number.get(number)

    def _ranked(self, number: float, value: Any) -> Grade:
        if not (number.is_integer() and 1 <= number <= len(self.levels)):
            raise Misfit(f"{self.name}: found {words_of(value)}, expected a rank of 1 to {len(self.levels)}")
        level = self.levels[int(number) - 1]
        return level.id, level.score

    def _scored(self, number: float, value: Any) -> Grade:
        if not 0 <= number <= 1:
            raise Misfit(f"{self.name}: found {words_of(value)}, expected a score of 0 to 1")
        near = [level for level in self.levels if abs(level.score - number) <= TOLERANCE]
        return (near[0].id, near[0].score) if len(near) == 1 else (None, number)

    def _bare_score(self, value: Any) -> Grade:
        number = number_of(value)
        if number is None or not 0 <= number <= 1:
            raise Misfit(f"{self.name}: found {words_of(value)}, expected a score of 0 to 1")
        return None, number

    @property
    def _expected(self) -> str:
        names = [level.id for level in self.levels]
        few = names if len(names) <= MOST_SHOWN_LEVELS else [*names[: MOST_SHOWN_LEVELS - 1], "...", names[-1]]
        return f"one of {', '.join(few)}"


def number_of(value: Any) -> float | None:
    """Number that a value is or can be parsed as; None for other text, a bool or a non-finite number."""
    if isinstance(value, str):
        text = value.strip()
        return float(text) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def decide_meaning(name: str, numbers: Iterable[float]) -> Meaning:
    """Meaning of one criterion's numbers in one file, ranks or scores. Raises `Misfit` if it is ambiguous."""
    found = sorted({float(number) for number in numbers})
    has_low = any(number < 1 for number in found)
    has_fraction = any(not number.is_integer() for number in found)
    if found[-1] > 1:
        if has_low or has_fraction:
            strange = next(number for number in found if number < 1 or not number.is_integer())
            words = f"found {strange:g} beside {found[-1]:g}, expected ranks from 1 or scores of 0 to 1"
            raise Misfit(f"{name}: {words}; --numbers decides, --missing {strange:g} declares it not applicable")
        return "rank"
    if not has_low:
        raise Misfit(f"{name}: found no number but 1, expected --numbers rank or --numbers score to decide")
    return "score"


def missing_values(texts: Sequence[str]) -> frozenset[str]:
    """Values declared to mean "not applicable", normalised for comparison: 0, "0" and "0.0" are equal."""
    return frozenset(_declared(text) for text in texts)


def _unique(named: Iterable[tuple[str, Level]]) -> dict[str, Level | None]:
    """Levels by name; None for a name of several."""
    found: dict[str, Level | None] = {}
    for name, level in named:
        found[name] = level if found.get(name, level) is level else None
    return found


def _declared(value: Any) -> str:
    number = number_of(value)
    return folded(value) if number is None and isinstance(value, str) else repr(value if number is None else number)


def _is_not_applicable(value: Any) -> bool:
    return isinstance(value, str) and folded(value) in NOT_APPLICABLE


def folded(text: str) -> str:
    """Fold a name: no surrounding spaces, one case."""
    return text.strip().casefold()
