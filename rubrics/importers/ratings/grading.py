"""Marks held against the criteria of a rubric, or of the rated output's own row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gradebook.rubrics.importers.ids import identifier
from gradebook.rubrics.importers.ratings.columns import words_of
from gradebook.rubrics.importers.ratings.ladders import (
    Grade,
    Ladder,
    Meaning,
    Numbers,
    decide_meaning,
    folded,
    missing_values,
)
from gradebook.rubrics.importers.ratings.shapes import OVERALL, Mark, Misfit
from gradebook.rubrics.importers.ratings.trajectory import DEFAULT_PENALTIES, TRAJECTORY, describe_slips, running_score
from gradebook.rubrics.model.methods import RatingsMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric

Key = TypeVar("Key")
Found = TypeVar("Found")

MOST_SHOWN_CRITERIA = 20


@dataclass(frozen=True, slots=True)
class Scales:
    """What may be rated: ladders by id, ids by name and by name in small letters; a trajectory's penalties."""

    ladders: Mapping[str, Ladder]
    ids: Mapping[str, str]
    plain_ids: Mapping[str, str]
    trajectory: str | None = None
    penalties: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_PENALTIES))

    def ladder_of(self, mark: Mark) -> Ladder:
        """The ladder of the criterion that is marked. Raises `Misfit`."""
        if mark.kind == "running_score":
            if self.trajectory is None:
                expected = f"expected one whose method is {{type: ratings, penalties: ...}}, or one named {TRAJECTORY}"
                raise Misfit(f"annotations: found no criterion for a running score, {expected}")
            return self.ladders[self.trajectory]
        found = self.find(mark.criterion)
        if found is None:
            known = list(self.ladders)[:MOST_SHOWN_CRITERIA]
            more = ", ..." if len(self.ladders) > len(known) else ""
            expected = f"expected one of {', '.join(known)}{more}" if known else "expected one of the output's own"
            raise Misfit(f"criterion: found {words_of(mark.criterion)}, {expected}")
        return self.ladders[found]

    def find(self, name: str) -> str | None:
        """The id of the criterion that a file calls so; None where there is none, or more than one."""
        # The first that knows the name says it: a later one may know a name of several as the id of one of them.
        found = self.ids.get(name)
        found = self.plain_ids.get(folded(name)) if found is None else found
        return (self.ids.get(identifier(name)) if found is None else found) or None


@dataclass(frozen=True, slots=True)
class Rated:
    """A mark as it is kept: score in 0..1; level_id: None for a bare score."""

    criterion_id: str
    level_id: str | None
    score: float
    notes: str | None


def scales_of_rubric(rubric: Rubric) -> Scales:
    """What people may rate of a rubric: its criteria, whatever their methods, and its overall row."""
    ladders = {criterion.id: Ladder(criterion.id, criterion.ranked_levels) for criterion in rubric.criteria}
    if rubric.overall:
        ladders[OVERALL] = Ladder(OVERALL, rubric.overall.ranked_levels)
    return _scales(ladders, rubric.criteria)


def scales_of_row(criteria: Sequence[Criterion]) -> Scales:
    """What people may rate of the criteria that an output brings along."""
    return _scales({each.id: Ladder(each.id, each.ranked_levels) for each in criteria}, criteria)


def _scales(ladders: dict[str, Ladder], criteria: Iterable[Criterion]) -> Scales:
    criteria = list(criteria)
    ids = _unique((name, each.id) for each in criteria for name in _names(each)) | {name: name for name in ladders}
    plain_ids = _unique((folded(name), each.id) for each in criteria for name in (each.id, *_names(each)))
    punished = [each for each in criteria if isinstance(each.method, RatingsMethod) and each.method.penalties]
    if len(punished) == 1 and isinstance(punished[0].method, RatingsMethod):
        return Scales(ladders, ids, plain_ids, punished[0].id, punished[0].method.penalties or {})
    return Scales(ladders, ids, plain_ids, TRAJECTORY if TRAJECTORY in ladders and not punished else None)


def _unique(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The ids by name; an empty one for a name that several criteria have."""
    found: dict[str, str] = {}
    for name, criterion_id in named:
        found[name] = criterion_id if found.get(name, criterion_id) == criterion_id else ""
    return found


def _names(criterion: Criterion) -> list[str]:
    """What another system calls the criterion: its name, and the one that an import kept."""
    kept = criterion.metadata.get("potato")
    names = [criterion.name, kept.get("name") if isinstance(kept, dict) else None]
    return [name for name in names if isinstance(name, str) and name]


class Grader:
    """Grades the marks of one file: first it is shown all of them, then it says what each is worth."""

    def __init__(self, numbers: Numbers = "auto", missing: Sequence[str] = ()) -> None:
        """numbers: what numbers that are no level's id mean; missing: values that mean "not applicable"."""
        self._numbers, self._missing = numbers, missing_values(missing)
        self._open: dict[Ladder, set[float]] = {}
        self._meanings: dict[Ladder, Meaning | Misfit] = {}
        self._grades: dict[tuple[Any, ...], Grade | Misfit | None] = {}

    @property
    def meanings(self) -> dict[str, str]:
        """What the numbers of a criterion were taken for, where the file had to say."""
        if self._numbers != "auto":
            return {ladder.name: self._numbers for ladder in self._open}
        return {ladder.name: found for ladder, found in self._meanings.items() if isinstance(found, str)}

    def show(self, mark: Mark, ladder: Ladder) -> None:
        """Take note of a mark, for what the numbers of a file mean is said by all of them together."""
        number = None if mark.kind == "running_score" else ladder.open_number(mark.value, mark.kind, self._missing)
        if number is not None:
            self._open.setdefault(ladder, set()).add(number)

    def grade(self, mark: Mark, ladder: Ladder, scales: Scales) -> Rated | None:
        """What a mark is worth; None where it does not apply. Raises `Misfit`."""
        if mark.kind == "running_score":
            score = running_score(mark.value, scales.penalties)
            slips = describe_slips(mark.value, scales.penalties)
            return Rated(ladder.name, None, score, f"{slips}\n{mark.notes}" if mark.notes else slips)
        grade = self._graded(mark, ladder)
        return None if grade is None else Rated(ladder.name, *grade, mark.notes)

    def _graded(self, mark: Mark, ladder: Ladder) -> Grade | None:
        """The grade of a value: a file of many rows holds few distinct ones."""
        if not isinstance(mark.value, str | int | float | None):
            return ladder.grade(mark.value, mark.kind, self._meaning(ladder), self._missing)
        key = (id(ladder), type(mark.value), mark.value, mark.kind)
        return _once(
            self._grades, key, lambda: ladder.grade(mark.value, mark.kind, self._meaning(ladder), self._missing)
        )

    def _meaning(self, ladder: Ladder) -> Meaning:
        if self._numbers != "auto":
            return self._numbers
        if ladder not in self._open:
            return "id"
        return _once(self._meanings, ladder, lambda: decide_meaning(ladder.name, self._open[ladder]))


def _once(found: dict[Key, Found | Misfit], key: Key, find: Callable[[], Found]) -> Found:
    """What `find` gives, or the misfit that it raises, found out once a key."""
    if key not in found:
        try:
            found[key] = find()
        except Misfit as misfit:
            found[key] = misfit
    held = found[key]
    if isinstance(held, Misfit):
        raise Misfit(*held.args)
    return held
