"""Conversion of people's marks to levels of a rubric's criteria, or of per-case criteria, by rules without guessing.

The first rule that applies decides:

1. a value declared to mean "not applicable" is missing;
2. true and false are the best and the worst of two levels;
3. text that is a level's id or label, or the description of one without a label, in any case, is that level;
4. if the ids of all levels are numbers, a number is the level of that id (4 and "4.0" are the id 4);
5. otherwise a number is a rank, from 1 for the worst level up to the number of levels, or a score of 0..1. The choice
   is made once for a criterion and a whole file: ranks if some number is above 1 and all are whole, scores if some
   number is a fraction or 0 and none is above 1. A file that has only 1 is ambiguous, and the user has to decide;
6. blank text, n/a, na, nan, null and not applicable are missing: no rating, and never a zero.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.importers.ids import identifier
from gradebook.rubrics.importers.metadata import mapping_or_empty
from gradebook.rubrics.importers.ratings.sheets import Kind, Mark, Misfit, shown_value
from gradebook.rubrics.importers.ratings.trajectory import TRAJECTORY, StepScale
from gradebook.rubrics.model.claim_marks import describe_marks, score_marks
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import ClaimMeasure, ClaimsMethod, RatingsMethod
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Rubric
from gradebook.rubrics.model.taxonomy import DEFAULT_PENALTIES, StepMark, describe_steps, ranked_severities, score_steps

Numbers = Literal["auto", "rank", "score"]
Meaning = Literal["rank", "score", "id"]
Grade = tuple[str | None, float]  # a level's id, None for a score between levels; and the score, 0..1

NOT_APPLICABLE = frozenset({"", "n/a", "na", "nan", "null", "not applicable", "not_applicable", "not-applicable"})
TOLERANCE = 1e-9  # largest difference between a score and an equal level's score
MOST_SHOWN_LEVELS = 12
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True, eq=False)  # identity as key: files name it many times
class Ladder:
    """Levels of a criterion, worst first, with the values that a mark may have.

    name: the criterion's id; question_digest: digest of the text that raters read.
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
        return _unique_levels((level.label, level) for level in self.levels if level.label) | ids

    @cached_property
    def _by_plain_text(self) -> dict[str, Level | None]:
        """Levels by folded id and label, or description where there is no label; None for an ambiguous text."""
        texts = ((text, level) for level in self.levels for text in (level.id, level.label or level.description))
        return _unique_levels((folded(text), level) for text, level in texts if text)

    def grade(self, value: Any, kind: Kind, meaning: Meaning, missing: frozenset[str]) -> Grade | None:
        """Level and score of a value; None if it means "not applicable". Raises `Misfit`."""
        if value is None or (missing and _comparable(value) in missing):
            return None
        if kind == "score":
            return None if _means_not_applicable(value) else self._bare_score(value)
        level = self._level_of(value)
        if level is None and kind == "value" and meaning != "id":
            number = number_of(value)
            if number is not None:
                return self._ranked(number, value) if meaning == "rank" else self._scored(number, value)
        if level is None and _means_not_applicable(value):
            return None
        if level is None:
            raise Misfit(f"{self.name}: found {shown_value(value)}, expected {self._expected}")
        return level.id, level.score

    def open_number(self, value: Any, kind: Kind, missing: frozenset[str]) -> float | None:
        """Number that may be a rank or a score, which only the whole file decides; None for any other value."""
        if kind != "value" or self.by_number or (missing and _comparable(value) in missing):
            return None
        return None if self._level_of(value) is not None else number_of(value)

    def _level_of(self, value: Any) -> Level | None:
        if isinstance(value, bool):
            return self.levels[-1 if value else 0] if len(self.levels) == 2 else None
        if isinstance(value, str):
            level = self._by_text.get(value) or self._by_plain_text.get(folded(value))
            if level is not None:
                return level
        number = number_of(value)
        return None if number is None else self.by_number.get(number)

    def _ranked(self, number: float, value: Any) -> Grade:
        if not (number.is_integer() and 1 <= number <= len(self.levels)):
            raise Misfit(f"{self.name}: found {shown_value(value)}, expected a rank of 1 to {len(self.levels)}")
        level = self.levels[int(number) - 1]
        return level.id, level.score

    def _scored(self, number: float, value: Any) -> Grade:
        if not 0 <= number <= 1:
            raise Misfit(f"{self.name}: found {shown_value(value)}, expected a score of 0 to 1")
        near = [level for level in self.levels if abs(level.score - number) <= TOLERANCE]
        return (near[0].id, near[0].score) if len(near) == 1 else (None, number)

    def _bare_score(self, value: Any) -> Grade:
        number = number_of(value)
        if number is None or not 0 <= number <= 1:
            raise Misfit(f"{self.name}: found {shown_value(value)}, expected a score of 0 to 1")
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
    distinct = sorted({float(number) for number in numbers})
    has_low = any(number < 1 for number in distinct)
    has_fraction = any(not number.is_integer() for number in distinct)
    if distinct[-1] > 1:
        if has_low or has_fraction:
            strange = next(number for number in distinct if number < 1 or not number.is_integer())
            message = f"found {strange:g} beside {distinct[-1]:g}, expected ranks from 1 or scores of 0 to 1"
            raise Misfit(f"{name}: {message}; --numbers decides, --missing {strange:g} declares it not applicable")
        return "rank"
    if not has_low:
        raise Misfit(f"{name}: found no number but 1, expected --numbers rank or --numbers score to decide")
    return "score"


def missing_values(texts: Sequence[str]) -> frozenset[str]:
    """Values declared to mean "not applicable", normalised for comparison: 0, "0" and "0.0" are equal."""
    return frozenset(_comparable(text) for text in texts)


def _unique_levels(named_levels: Iterable[tuple[str, Level]]) -> dict[str, Level | None]:
    """Levels by name; None for a name of several levels."""
    unique: dict[str, Level | None] = {}
    for name, level in named_levels:
        unique[name] = level if unique.get(name, level) is level else None
    return unique


def _comparable(value: Any) -> str:
    number = number_of(value)
    return folded(value) if number is None and isinstance(value, str) else repr(value if number is None else number)


def _means_not_applicable(value: Any) -> bool:
    return isinstance(value, str) and folded(value) in NOT_APPLICABLE


def folded(text: str) -> str:
    """Fold a name: no surrounding spaces, one case."""
    return text.strip().casefold()


Key = TypeVar("Key")
Cached = TypeVar("Cached")

MOST_SHOWN_CRITERIA = 20


@dataclass(frozen=True, slots=True)
class Scales:
    """Criteria that may be rated: ladders by id, ids by name and by folded name.

    trajectory: id of the default criterion for marks of steps, with the scale `steps`. stepwise: scales of all criteria
    that such marks may rate. ids_in_schemes: ids by scheme, the criterion's category, and folded name. counts: ids of
    the criteria that count a trajectory's errors, by folded kind and severity; an empty id if several count it. claims:
    measure of each criterion of claims, by id.
    """

    ladders: Mapping[str, Ladder]
    ids: Mapping[str, str]
    plain_ids: Mapping[str, str]
    trajectory: str | None = None
    steps: StepScale = field(default_factory=lambda: StepScale(penalties=DEFAULT_PENALTIES))
    stepwise: Mapping[str, StepScale] = field(default_factory=dict)
    ids_in_schemes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    counts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    claims: Mapping[str, ClaimMeasure] = field(default_factory=dict)

    def ladder_of(self, mark: Mark) -> Ladder:
        """Ladder of the marked criterion. Raises `Misfit`."""
        if mark.kind == "running_score":
            return self.ladders[self._stepwise_id(mark)]
        if mark.kind == "claims":
            return self.ladders[self._claimed(mark.criterion)]
        criterion_id = self.find(mark.criterion, mark.scheme)
        if criterion_id is None:
            criterion_ids = list(self.ladders)[:MOST_SHOWN_CRITERIA]
            more = ", ..." if len(self.ladders) > len(criterion_ids) else ""
            expected = (
                f"expected one of {', '.join(criterion_ids)}{more}"
                if criterion_ids
                else "expected one of the output's own"
            )
            raise Misfit(f"criterion: found {shown_value(mark.criterion)}, {expected}")
        return self.ladders[criterion_id]

    def steps_of(self, criterion_id: str) -> StepScale:
        """Scale of the steps whose marks rate a criterion."""
        return self.stepwise.get(criterion_id, self.steps)

    def _stepwise_id(self, mark: Mark) -> str:
        if mark.criterion:
            criterion_id = self.find(mark.criterion)
            if criterion_id not in (*self.stepwise, self.trajectory):
                expected_ids = ", ".join(self.stepwise) or "one with `unit: step`"
                raise Misfit(f"criterion_id: found {shown_value(mark.criterion)}, expected {expected_ids}")
            return str(criterion_id)
        if self.trajectory is None:
            several = f"; name one of {', '.join(self.stepwise)} as criterion_id" if self.stepwise else ""
            expected = f"expected one with `unit: step` or `penalties`, or one named {TRAJECTORY}{several}"
            raise Misfit(f"annotations: found no criterion for a running score, {expected}")
        return self.trajectory

    def _claimed(self, name: str) -> str:
        """Id of the criterion whose claims are marked; without a name, the only such criterion. Raises `Misfit`."""
        criterion_id = (self.find(name) or name) if name else next(iter(self.claims), "")
        if criterion_id not in self.claims or (not name and len(self.claims) > 1):
            expected_ids = f"expected criterion_id to be one of {', '.join(self.claims)}"
            expected = expected_ids if self.claims else "expected a rubric with a criterion of the method claims"
            raise Misfit(f"claims: found {shown_value(name) if name else 'no criterion_id'}, {expected}")
        return criterion_id

    @property
    def counts_steps(self) -> bool:
        """Whether marks of steps can be counted: each error and severity of the taxonomy has its criterion."""
        taxonomy, penalties = self.steps.taxonomy, self.steps.penalties
        if not self.counts or taxonomy is None:
            return False
        kinds = [" / ".join(word for word in kind if word) for kind in taxonomy.kinds]
        severities = ranked_severities(penalties or {})
        return all(self.counts.get((folded(kind), folded(severity))) for kind in kinds for severity in severities)

    def counted(self, mark: Mark) -> list[Mark]:
        """Marks of the criteria that count errors, 0 included, in place of a running score. Raises `Misfit`."""
        steps: dict[str, list[str]] = {count: [] for count in self.counts.values() if count}
        for slip in mark.value:
            if not (slip.error_type and slip.severity):
                continue
            kind = " / ".join(word for word in (*slip.error_type.split("::"), slip.error_subtype) if word)
            count_id = self.counts.get((folded(kind), folded(slip.severity)))
            if not count_id:
                kinds = {count_id: " ".join(kind) for kind, count_id in reversed([*self.counts.items()]) if count_id}
                known_kinds = [kinds[count_id] for count_id in steps][:MOST_SHOWN_CRITERIA]
                found_kind = f"{shown_value(kind)} {slip.severity}"
                raise Misfit(f"annotations: found {found_kind}, expected one of {', '.join(known_kinds)}")
            steps[count_id].append(slip.step)
        return [
            Mark(criterion, min(len(at), len(self.ladders[criterion].levels) - 1), notes=_steps_text(at, mark.notes))
            for criterion, at in steps.items()
        ]

    def find(self, name: str, scheme: str | None = None) -> str | None:
        """Id of the criterion with that name in the file; None if there is none, or more than one."""
        # The first mapping that has the name decides. An ambiguous name has an empty id there, and is not searched
        # further.
        criterion_id = self.ids_in_schemes.get((scheme, folded(name))) if scheme else None
        criterion_id = self.ids.get(name) if criterion_id is None else criterion_id
        criterion_id = self.plain_ids.get(folded(name)) if criterion_id is None else criterion_id
        return (self.ids.get(identifier(name)) if criterion_id is None else criterion_id) or None


@dataclass(frozen=True, slots=True)
class Rated:
    """Graded mark: score in 0..1; level_id: None for a score without a level. steps: marks of a trajectory's steps."""

    criterion_id: str
    level_id: str | None
    score: float
    notes: str | None
    steps: tuple[StepMark, ...] = ()


def _steps_text(steps: Sequence[str], notes: str | None) -> str | None:
    at = f"step{'s' if len(steps) > 1 else ''} {', '.join(steps)}" if steps else None
    return "\n".join(text for text in (at, notes) if text) or None


def scales_of_rubric(rubric: Rubric) -> Scales:
    """Scales of a rubric's criteria, of any method, and of its overall row."""
    ladders = _ladders(rubric.criteria)
    if rubric.overall:
        ladders[OVERALL] = Ladder(OVERALL, rubric.overall.ranked_levels, question_digest(rubric.overall))
    potato_notes = {category.id: mapping_or_empty(category.metadata.get("potato")) for category in rubric.categories}
    schemes = {
        name: str(category_notes.get("name", name)) for name, category_notes in potato_notes.items()
    }  # a long name is a category's metadata
    ids = (
        ((schemes.get(criterion.category, criterion.category), folded(name)), criterion.id)
        for criterion in rubric.criteria
        if criterion.category
        for name in (criterion.id, *_names(criterion))
    )
    counts = _unique_ids((kind, criterion.id) for criterion in rubric.criteria for kind in _counted_kinds(criterion))
    scales = _scales(ladders, rubric.criteria)
    punished, stepwise = scales.trajectory, [criterion for criterion in rubric.criteria if criterion.is_stepwise]
    stepwise_scales = {
        criterion.id: StepScale(criterion.ranked_levels, rubric.penalties_of(criterion), rubric.taxonomy)
        for criterion in stepwise
    }
    if len(stepwise) == 1 and punished in (None, TRAJECTORY, stepwise[0].id):
        scales = replace(scales, trajectory=stepwise[0].id, steps=stepwise_scales[stepwise[0].id])
    elif rubric.taxonomy:
        scales = replace(scales, steps=replace(scales.steps, taxonomy=rubric.taxonomy))
    stepwise_scales = ({scales.trajectory: scales.steps} if scales.trajectory else {}) | stepwise_scales
    claims = {
        criterion.id: criterion.method.measure
        for criterion in rubric.criteria
        if isinstance(criterion.method, ClaimsMethod)
    }
    return replace(scales, stepwise=stepwise_scales, ids_in_schemes=_unique_ids(ids), counts=counts, claims=claims)


def scales_of_row(criteria: Sequence[Criterion]) -> Scales:
    """Scales of per-case criteria."""
    return _scales(_ladders(criteria), criteria)


def _ladders(criteria: Iterable[Criterion]) -> dict[str, Ladder]:
    return {
        criterion.id: Ladder(criterion.id, criterion.ranked_levels, question_digest(criterion))
        for criterion in criteria
    }


def _scales(ladders: dict[str, Ladder], criteria: Iterable[Criterion]) -> Scales:
    criteria = list(criteria)
    ids = _unique_ids((name, criterion.id) for criterion in criteria for name in _names(criterion)) | {
        name: name for name in ladders
    }
    plain_ids = _unique_ids(
        (folded(name), criterion.id) for criterion in criteria for name in (criterion.id, *_names(criterion))
    )
    punished = [
        criterion
        for criterion in criteria
        if isinstance(criterion.method, RatingsMethod) and criterion.method.penalties
    ]
    if len(punished) == 1 and isinstance(punished[0].method, RatingsMethod):
        return Scales(ladders, ids, plain_ids, punished[0].id, StepScale(penalties=punished[0].method.penalties))
    return Scales(ladders, ids, plain_ids, TRAJECTORY if TRAJECTORY in ladders and not punished else None)


def _unique_ids(named_ids: Iterable[tuple[Key, str]]) -> dict[Key, str]:
    """Ids by name; an empty id for a name of several criteria."""
    unique: dict[Key, str] = {}
    for name, criterion_id in named_ids:
        unique[name] = criterion_id if unique.get(name, criterion_id) == criterion_id else ""
    return unique


def _names(criterion: Criterion) -> list[str]:
    """Names of the criterion in other systems: its name, and the one stored by an import."""
    potato_notes = criterion.metadata.get("potato")
    names = [criterion.name, potato_notes.get("name") if isinstance(potato_notes, dict) else None]
    return [name for name in names if isinstance(name, str) and name]


def _counted_kinds(criterion: Criterion) -> list[tuple[str, str]]:
    """Pairs (error name, severity) that a criterion of an imported trajectory counts."""
    potato_notes = mapping_or_empty(criterion.metadata.get("potato"))
    category, kind, severity = (potato_notes.get(key) for key in ("category", "type", "severity"))
    if potato_notes.get("part") != "errors" or not isinstance(category, str) or not isinstance(severity, str):
        return []
    names = [kind, f"{category} / {kind}", f"{category}.{kind}"] if isinstance(kind, str) else [category]
    ids = " / ".join(identifier(word) for word in (category, kind) if isinstance(word, str))  # as in the taxonomy
    return [*((folded(name), folded(severity)) for name in names), (ids, identifier(severity))]


class Grader:
    """Grader of the marks of one file in two passes: first `show` for all marks, then `grade` for each."""

    def __init__(self, numbers: Numbers = "auto", missing: Sequence[str] = ()) -> None:
        """numbers: meaning of numbers that are not a level's id; missing: values that mean "not applicable"."""
        self._numbers, self._missing = numbers, missing_values(missing)
        self._open: dict[Ladder, set[float]] = {}
        self._meanings: dict[Ladder, Meaning | Misfit] = {}
        self._grades: dict[tuple[Any, ...], Grade | Misfit | None] = {}

    @property
    def meanings(self) -> dict[str, str]:
        """Meaning of each criterion's numbers (ranks or scores), where the file's numbers decided it."""
        if self._numbers != "auto":
            return {ladder.name: self._numbers for ladder in self._open}
        return {ladder.name: meaning for ladder, meaning in self._meanings.items() if isinstance(meaning, str)}

    def show(self, mark: Mark, ladder: Ladder) -> None:
        """Record a mark, as the meaning of a file's numbers depends on all of them."""
        number = (
            None
            if mark.kind in ("running_score", "claims")
            else ladder.open_number(mark.value, mark.kind, self._missing)
        )
        if number is not None:
            self._open.setdefault(ladder, set()).add(number)

    def grade(self, mark: Mark, ladder: Ladder, scales: Scales) -> Rated | None:
        """Grade a mark; None if it does not apply. Raises `Misfit`."""
        if mark.kind == "running_score":
            scale = scales.steps_of(ladder.name)
            marks = scale.marks(mark.value)
            score, description = score_steps(marks, scale.penalties), describe_steps(marks, scale.penalties)
            if score is None:
                return None
            return Rated(ladder.name, None, score, f"{description}\n{mark.notes}" if mark.notes else description, marks)
        if mark.kind == "claims":
            score, description = score_marks(scales.claims[ladder.name], mark.value), describe_marks(mark.value)
            notes = f"{description}\n{mark.notes}" if mark.notes else description
            return None if score is None else Rated(ladder.name, None, score, notes)
        grade = self._graded(mark, ladder)
        return None if grade is None else Rated(ladder.name, *grade, mark.notes)

    def _graded(self, mark: Mark, ladder: Ladder) -> Grade | None:
        """Grade of a value, cached: a file of many rows has few distinct ones."""
        if not isinstance(mark.value, str | int | float | None):
            return ladder.grade(mark.value, mark.kind, self._meaning(ladder), self._missing)
        key = (id(ladder), type(mark.value), mark.value, mark.kind)
        return _cached(
            self._grades, key, lambda: ladder.grade(mark.value, mark.kind, self._meaning(ladder), self._missing)
        )

    def _meaning(self, ladder: Ladder) -> Meaning:
        if self._numbers != "auto":
            return self._numbers
        if ladder not in self._open:
            return "id"
        return _cached(self._meanings, ladder, lambda: decide_meaning(ladder.name, self._open[ladder]))


def _cached(cache: dict[Key, Cached | Misfit], key: Key, find: Callable[[], Cached]) -> Cached:
    """Result of `find`, or its `Misfit`, cached by key."""
    if key not in cache:
        try:
            cache[key] = find()
        except Misfit as misfit:
            cache[key] = misfit
    outcome = cache[key]
    if isinstance(outcome, Misfit):
        raise Misfit(*outcome.args)
    return outcome
