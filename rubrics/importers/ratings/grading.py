"""Conversion of marks to verdicts on the criteria of a rubric, or on per-case criteria."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gradebook.rubrics.files.digest import question_digest
from gradebook.rubrics.importers.ids import identifier
from gradebook.rubrics.importers.metadata import mapping_of
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
from gradebook.rubrics.importers.ratings.shapes import Mark, Misfit
from gradebook.rubrics.importers.ratings.trajectory import TRAJECTORY, StepScale
from gradebook.rubrics.model.claim_marks import describe_marks, score_marks
from gradebook.rubrics.model.methods import ClaimMeasure, ClaimsMethod, RatingsMethod
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Rubric
from gradebook.rubrics.model.taxonomy import DEFAULT_PENALTIES, StepMark, describe_steps, ranked_severities, score_steps

Key = TypeVar("Key")
Found = TypeVar("Found")

MOST_SHOWN_CRITERIA = 20


@dataclass(frozen=True, slots=True)
class Scales:
    """Criteria that may be rated: ladders by id, ids by name and by folded name.

    trajectory: id of the criterion that marks of steps rate where they name none, by the scale `steps`. stepwise:
    scales of all criteria that such marks may rate. ids_in_schemes: ids by scheme, the criterion's category, and folded
    name. counts: ids of the criteria that count a trajectory's errors, by folded kind and severity; empty for a kind of
    several. claims: what the criteria of claims measure, by id.
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
        found = self.find(mark.criterion, mark.scheme)
        if found is None:
            known = list(self.ladders)[:MOST_SHOWN_CRITERIA]
            more = ", ..." if len(self.ladders) > len(known) else ""
            expected = f"expected one of {', '.join(known)}{more}" if known else "expected one of the output's own"
            raise Misfit(f"criterion: found {words_of(mark.criterion)}, {expected}")
        return self.ladders[found]

    def steps_of(self, criterion_id: str) -> StepScale:
        """Scale of the steps that rate a criterion."""
        return self.stepwise.get(criterion_id, self.steps)

    def _stepwise_id(self, mark: Mark) -> str:
        if mark.criterion:
            found = self.find(mark.criterion)
            if found not in (*self.stepwise, self.trajectory):
                known = ", ".join(self.stepwise) or "one with `unit: step`"
                raise Misfit(f"criterion_id: found {words_of(mark.criterion)}, expected {known}")
            return str(found)
        if self.trajectory is None:
            several = f"; name one of {', '.join(self.stepwise)} as criterion_id" if self.stepwise else ""
            expected = f"expected one with `unit: step` or `penalties`, or one named {TRAJECTORY}{several}"
            raise Misfit(f"annotations: found no criterion for a running score, {expected}")
        return self.trajectory

    def _claimed(self, name: str) -> str:
        """Id of the criterion whose claims are marked; without a name the only one. Raises `Misfit`."""
        found = (self.find(name) or name) if name else next(iter(self.claims), "")
        if found not in self.claims or (not name and len(self.claims) > 1):
            known = f"expected criterion_id to be one of {', '.join(self.claims)}"
            expected = known if self.claims else "expected a rubric with a criterion of the method claims"
            raise Misfit(f"claims: found {words_of(name) if name else 'no criterion_id'}, {expected}")
        return found

    @property
    def counts_steps(self) -> bool:
        """Whether the marks of steps make counts: each error of the taxonomy and severity has its criterion."""
        taxonomy, penalties = self.steps.taxonomy, self.steps.penalties
        if not self.counts or taxonomy is None:
            return False
        kinds = [" / ".join(word for word in kind if word) for kind in taxonomy.kinds]
        severities = ranked_severities(penalties or {})
        return all(self.counts.get((folded(kind), folded(each))) for kind in kinds for each in severities)

    def counted(self, mark: Mark) -> list[Mark]:
        """Marks of the criteria that count errors, 0 included, in place of a running score. Raises `Misfit`."""
        steps: dict[str, list[str]] = {each: [] for each in self.counts.values() if each}
        for slip in mark.value:
            if not (slip.error_type and slip.severity):
                continue
            kind = " / ".join(word for word in (*slip.error_type.split("::"), slip.error_subtype) if word)
            found = self.counts.get((folded(kind), folded(slip.severity)))
            if not found:
                kinds = {each: " ".join(kind) for kind, each in reversed([*self.counts.items()]) if each}
                known = [kinds[each] for each in steps][:MOST_SHOWN_CRITERIA]
                found_kind = f"{words_of(kind)} {slip.severity}"
                raise Misfit(f"annotations: found {found_kind}, expected one of {', '.join(known)}")
            steps[found].append(slip.step)
        return [
            Mark(each, min(len(at), len(self.ladders[each].levels) - 1), notes=_steps_text(at, mark.notes))
            for each, at in steps.items()
        ]

    def find(self, name: str, scheme: str | None = None) -> str | None:
        """Id of the criterion with that name in the file; None if there is none, or more than one."""
        # The first mapping with the name decides: a later one may have an ambiguous name as the id of one criterion.
        found = self.ids_in_schemes.get((scheme, folded(name))) if scheme else None
        found = self.ids.get(name) if found is None else found
        found = self.plain_ids.get(folded(name)) if found is None else found
        return (self.ids.get(identifier(name)) if found is None else found) or None


@dataclass(frozen=True, slots=True)
class Rated:
    """Graded mark: score in 0..1; level_id: None for a bare score. steps: what it is made of, of a trajectory."""

    criterion_id: str
    level_id: str | None
    score: float
    notes: str | None
    steps: tuple[StepMark, ...] = ()


def _steps_text(steps: Sequence[str], notes: str | None) -> str | None:
    at = f"step{'s' if len(steps) > 1 else ''} {', '.join(steps)}" if steps else None
    return "\n".join(text for text in (at, notes) if text) or None


def scales_of_rubric(rubric: Rubric) -> Scales:
    """Scales of a rubric: its criteria, whatever their methods, and its overall row."""
    ladders = _ladders(rubric.criteria)
    if rubric.overall:
        ladders[OVERALL] = Ladder(OVERALL, rubric.overall.ranked_levels, question_digest(rubric.overall))
    kept = {category.id: mapping_of(category.metadata.get("potato")) for category in rubric.categories}
    schemes = {name: str(own.get("name", name)) for name, own in kept.items()}  # a long name is a category's metadata
    ids = (
        ((schemes.get(each.category, each.category), folded(name)), each.id)
        for each in rubric.criteria
        if each.category
        for name in (each.id, *_names(each))
    )
    counts = _unique((kind, each.id) for each in rubric.criteria for kind in _counted_kinds(each))
    scales = _scales(ladders, rubric.criteria)
    punished, stepwise = scales.trajectory, [each for each in rubric.criteria if each.is_stepwise]
    own = {each.id: StepScale(each.ranked_levels, rubric.penalties_of(each), rubric.taxonomy) for each in stepwise}
    if len(stepwise) == 1 and punished in (None, TRAJECTORY, stepwise[0].id):
        scales = replace(scales, trajectory=stepwise[0].id, steps=own[stepwise[0].id])
    elif rubric.taxonomy:
        scales = replace(scales, steps=replace(scales.steps, taxonomy=rubric.taxonomy))
    own = ({scales.trajectory: scales.steps} if scales.trajectory else {}) | own
    claims = {each.id: each.method.measure for each in rubric.criteria if isinstance(each.method, ClaimsMethod)}
    return replace(scales, stepwise=own, ids_in_schemes=_unique(ids), counts=counts, claims=claims)


def scales_of_row(criteria: Sequence[Criterion]) -> Scales:
    """Scales of per-case criteria."""
    return _scales(_ladders(criteria), criteria)


def _ladders(criteria: Iterable[Criterion]) -> dict[str, Ladder]:
    return {each.id: Ladder(each.id, each.ranked_levels, question_digest(each)) for each in criteria}


def _scales(ladders: dict[str, Ladder], criteria: Iterable[Criterion]) -> Scales:
    criteria = list(criteria)
    ids = _unique((name, each.id) for each in criteria for name in _names(each)) | {name: name for name in ladders}
    plain_ids = _unique((folded(name), each.id) for each in criteria for name in (each.id, *_names(each)))
    punished = [each for each in criteria if isinstance(each.method, RatingsMethod) and each.method.penalties]
    if len(punished) == 1 and isinstance(punished[0].method, RatingsMethod):
        return Scales(ladders, ids, plain_ids, punished[0].id, StepScale(penalties=punished[0].method.penalties))
    return Scales(ladders, ids, plain_ids, TRAJECTORY if TRAJECTORY in ladders and not punished else None)


def _unique(named: Iterable[tuple[Key, str]]) -> dict[Key, str]:
    """Ids by name; an empty one for a name of several criteria."""
    found: dict[Key, str] = {}
    for name, criterion_id in named:
        found[name] = criterion_id if found.get(name, criterion_id) == criterion_id else ""
    return found


def _names(criterion: Criterion) -> list[str]:
    """Names of the criterion in other systems: its name, and the one stored by an import."""
    kept = criterion.metadata.get("potato")
    names = [criterion.name, kept.get("name") if isinstance(kept, dict) else None]
    return [name for name in names if isinstance(name, str) and name]


def _counted_kinds(criterion: Criterion) -> list[tuple[str, str]]:
    """Names of the errors that a criterion from an imported trajectory counts, each with their severity."""
    kept = mapping_of(criterion.metadata.get("potato"))
    category, kind, severity = (kept.get(key) for key in ("category", "type", "severity"))
    if kept.get("part") != "errors" or not isinstance(category, str) or not isinstance(severity, str):
        return []
    names = [kind, f"{category} / {kind}", f"{category}.{kind}"] if isinstance(kind, str) else [category]
    ids = " / ".join(identifier(word) for word in (category, kind) if isinstance(word, str))  # as in the taxonomy
    return [*((folded(name), folded(severity)) for name in names), (ids, identifier(severity))]


class Grader:
    """Grades the marks of one file in two passes: `show` for all marks first, then `grade` for each."""

    def __init__(self, numbers: Numbers = "auto", missing: Sequence[str] = ()) -> None:
        """numbers: meaning of numbers that are not a level's id; missing: values that mean "not applicable"."""
        self._numbers, self._missing = numbers, missing_values(missing)
        self._open: dict[Ladder, set[float]] = {}
        self._meanings: dict[Ladder, Meaning | Misfit] = {}
        self._grades: dict[tuple[Any, ...], Grade | Misfit | None] = {}

    @property
    def meanings(self) -> dict[str, str]:
        """Meaning found for the numbers of each criterion, where the file had to decide it."""
        if self._numbers != "auto":
            return {ladder.name: self._numbers for ladder in self._open}
        return {ladder.name: found for ladder, found in self._meanings.items() if isinstance(found, str)}

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
            score, words = score_steps(marks, scale.penalties), describe_steps(marks, scale.penalties)
            if score is None:
                return None
            return Rated(ladder.name, None, score, f"{words}\n{mark.notes}" if mark.notes else words, marks)
        if mark.kind == "claims":
            score, words = score_marks(scales.claims[ladder.name], mark.value), describe_marks(mark.value)
            notes = f"{words}\n{mark.notes}" if mark.notes else words
            return None if score is None else Rated(ladder.name, None, score, notes)
        grade = self._graded(mark, ladder)
        return None if grade is None else Rated(ladder.name, *grade, mark.notes)

    def _graded(self, mark: Mark, ladder: Ladder) -> Grade | None:
        """Grade of a value, cached: a file of many rows has few distinct ones."""
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
    """Result of `find`, or the misfit that it raises, cached by key."""
    if key not in found:
        try:
            found[key] = find()
        except Misfit as misfit:
            found[key] = misfit
    outcome = found[key]
    if isinstance(outcome, Misfit):
        raise Misfit(*outcome.args)
    return outcome
