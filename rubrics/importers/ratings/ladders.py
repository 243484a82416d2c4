"""From what a person marked to a level of the criterion, by rules that leave nothing to a guess.

In this order, the first that fits counts:

1. a value that was declared to mean "not applicable" is missing;
2. true and false are the best and the worst of two levels;
3. text that is a level's id, a level's label, or either in other letters' case, is that level;
4. where the ids of all levels are numbers, a number is the level of that id (4 and "4.0" are the id 4);
5. elsewhere a number is a rank, 1 for the worst level up to the count of levels, or a score of 0..1. Which of them is
   said once for a criterion and a whole file: ranks where some number is above 1 and all are whole, scores where some
   number is a fraction or 0 and none is above 1. A file that holds only 1 can't tell, and is asked to say;
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
Grade = tuple[str | None, float]  # a level's id, None for a score between them; and the score, 0..1

NOT_APPLICABLE = frozenset({"", "n/a", "na", "nan", "null", "not applicable", "not_applicable", "not-applicable"})
TOLERANCE = 1e-9  # of a score that is a level's
MOST_SHOWN_LEVELS = 12
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True, eq=False)  # one is its own key: files name it many times
class Ladder:
    """A criterion's levels, worst first, and what may be said of them. name: the criterion's id."""

    name: str
    levels: tuple[Level, ...]

    @cached_property
    def by_number(self) -> dict[float, Level]:
        """The levels by the number that their id is; empty where some id is none."""
        numbers = [number_of(level.id) for level in self.levels]
        keyed = {number: level for number, level in zip(numbers, self.levels, strict=True) if number is not None}
        return keyed if len(keyed) == len(self.levels) else {}

    @cached_property
    def _by_text(self) -> dict[str, Level | None]:
        """The levels by their ids, and by their labels where no id is the same; None for a label of several."""
        ids: dict[str, Level | None] = {level.id: level for level in self.levels}
        return _unique((level.label, level) for level in self.levels if level.label) | ids

    @cached_property
    def _by_plain_text(self) -> dict[str, Level | None]:
        """The levels by both in small letters; None for a text of several."""
        return _unique((folded(text), level) for level in self.levels for text in (level.id, level.label) if text)

    def grade(self, value: Any, kind: Kind, meaning: Meaning, missing: frozenset[str]) -> Grade | None:
        """The level and score of a value; None where it says that nothing applies. Raises `Misfit`."""
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
        """The number whose meaning the whole file has to say; None where the value is no such number."""
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
    """The number that a value is or reads as; None for text of another kind, a truth or what is not finite."""
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
    """What the numbers of one criterion in one file are, ranks or scores. Raises `Misfit` where they can't tell."""
    found = sorted({float(number) for number in numbers})
    has_low = any(number < 1 for number in found)
    has_fraction = any(not number.is_integer() for number in found)
    if found[-1] > 1:
        if has_low or has_fraction:
            strange = next(number for number in found if number < 1 or not number.is_integer())
            words = f"found {strange:g} beside {found[-1]:g}, expected ranks from 1 or scores of 0 to 1"
            raise Misfit(f"{name}: {words}; --numbers says which, --missing {strange:g} that it means not applicable")
        return "rank"
    if not has_low:
        raise Misfit(f"{name}: found no number but 1, expected --numbers rank or --numbers score to say what it means")
    return "score"


def missing_values(texts: Sequence[str]) -> frozenset[str]:
    """The values that are declared to mean "not applicable", as they are compared: 0, "0" and "0.0" are one."""
    return frozenset(_declared(text) for text in texts)


def _unique(named: Iterable[tuple[str, Level]]) -> dict[str, Level | None]:
    """The levels by name; None for a name that several have."""
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
    """A text as two spellings of one name have it: without spaces around it, in one case."""
    return text.strip().casefold()
