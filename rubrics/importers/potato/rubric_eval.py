"""Potato's `rubric_eval`: criteria that people rate on one scale, as criteria of the method `ratings`.

A scheme has a `scale {min, max, labels}` with descriptions per criterion and point, or `scale_points` and
`scale_labels`. Potato's own score, sum(weight * rating) / sum(weight), lies between min and max; gradebook's is (that -
min) / (max - min).
"""

from typing import Annotated

from pydantic import Field

from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading
from gradebook.rubrics.importers.ids import DistinctIds
from gradebook.rubrics.importers.metadata import Kept, filled, kept_as, plain_number
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.levels import MOST_LEVELS
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT
from gradebook.rubrics.text.plain_words import Place

DEFAULT_POINTS = 5  # of a scheme without a scale
OVERALL_PART = "overall"
OVERALL_QUESTION = "How good is the output as a whole?"

Texts = dict[str, str]


class _Scale(OpenMapping):
    min: Annotated[int, Field(ge=0)] = 1
    max: Annotated[int, Field(ge=1)] = DEFAULT_POINTS
    labels: Annotated[Texts, Field(default_factory=dict)]


class _Criterion(OpenMapping):
    name: Annotated[str, Field(min_length=1)]
    label: str | None = None
    description: str | None = None
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)] | None = None
    scale_descriptions: Annotated[Texts, Field(default_factory=dict)]


class _Overall(OpenMapping):
    enabled: bool = True
    label: str | None = None
    description: str | None = None
    scale_descriptions: Annotated[Texts, Field(default_factory=dict)]


class _Notes(OpenMapping):
    enabled: bool = True
    label: str | None = None
    placeholder: str | None = None


class RubricScheme(OpenMapping):
    """Scheme `rubric_eval` in either spelling."""

    annotation_type: str
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    scale: _Scale | None = None
    scale_points: Annotated[int, Field(ge=2, le=MOST_LEVELS)] | None = None
    scale_labels: list[str] | None = None
    criteria: Annotated[list[_Criterion], Field(min_length=1)]
    overall: _Overall | None = None
    show_overall: bool | None = None
    notes: _Notes | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest point."""
        return (self.scale.min, self.scale.max) if self.scale else (1, self.scale_points or DEFAULT_POINTS)

    @property
    def labels(self) -> Texts:
        """Short name of each point."""
        if self.scale:
            return self.scale.labels
        return {str(point): label for point, label in enumerate(self.scale_labels or (), start=1)}

    @property
    def has_points(self) -> bool:
        """Whether it is spelled with `scale_points`, `scale_labels` and `show_overall`."""
        return self.scale is None and bool(self.scale_points or self.scale_labels or self.show_overall)

    def scale_of(self, points: Texts) -> Row:
        """Scale of a criterion with these descriptions of points."""
        lowest, highest = self.bounds
        return {"min": lowest, "max": highest, **filled({"points": filled(points), "labels": filled(self.labels)})}


def note_rubric_faults(scheme: RubricScheme, reading: Reading) -> None:
    """Record faults that types cannot express: points outside the scale, repeated names, two scales."""
    lowest, highest = scheme.bounds
    if not 1 <= highest - lowest < MOST_LEVELS:
        words = f"found {lowest} to {highest}, expected 2 to {MOST_LEVELS} points from min to max"
        reading.note(("scale",), words)
        return
    if scheme.scale and (scheme.scale_points or scheme.scale_labels):
        key = "scale_points" if scheme.scale_points else "scale_labels"
        reading.note((key,), "found it next to scale, expected one of them")
    elif scheme.scale_labels and len(scheme.scale_labels) != highest - lowest + 1:
        words = f"found {counted(len(scheme.scale_labels), 'label')}, expected {highest - lowest + 1}, one per point"
        reading.note(("scale_labels",), words)
    points = [str(point) for point in range(lowest, highest + 1)]
    for place, texts in _described_points(scheme).items():
        for point in texts:
            if point not in points:
                reading.note((*place, point), f"found the point {point!r}, expected {lowest} to {highest}")
    reading.note_repeats((criterion.name for criterion in scheme.criteria), ("criteria",), "name")


def _described_points(scheme: RubricScheme) -> dict[Place, Texts]:
    """Texts by point, by their place."""
    rows: dict[Place, Texts] = {
        ("criteria", index, "scale_descriptions"): criterion.scale_descriptions
        for index, criterion in enumerate(scheme.criteria)
    }
    labels: dict[Place, Texts] = {("scale", "labels"): scheme.scale.labels} if scheme.scale else {}
    overall = scheme.overall.scale_descriptions if scheme.overall else {}
    return {**rows, **labels, ("overall", "scale_descriptions"): overall}


def read_criteria(scheme: RubricScheme, ids: DistinctIds, kept: Kept) -> tuple[list[Row], Row]:
    """Criteria of a scheme, and the stored rest of it."""
    criteria = [_criterion(criterion, scheme, ids.take(criterion.name), kept) for criterion in scheme.criteria]
    left = kept.note_all("", scheme.left)
    if scheme.scale and scheme.scale.left:
        left["scale"] = kept.note_all("scale.", scheme.scale.left)
    return criteria, left


def _criterion(criterion: _Criterion, scheme: RubricScheme, criterion_id: str, kept: Kept) -> Row:
    renamed = {} if criterion.name == criterion_id else kept.note_all("criteria.", {"name": criterion.name})
    left = kept.note_all("criteria.", criterion.left)
    return {
        "id": criterion_id,
        **filled({"name": criterion.label}),
        "description": criterion.description or criterion.label or criterion.name,
        **({} if criterion.weight is None else {"weight": plain_number(criterion.weight)}),
        "method": {"type": "ratings"},
        "scale": scheme.scale_of(criterion.scale_descriptions),
        **kept_as("potato", {**renamed, **filled({"criterion": left})}),
    }


def overall_criterion(scheme: RubricScheme, row: Row, ids: DistinctIds) -> Row:
    """Overall row of a further scheme, as a criterion without weight: a rubric has one overall row.

    row: as `read_free_rows` gives it.
    """
    named = {"part": OVERALL_PART, "name": OVERALL_PART, **({} if scheme.overall else {"spelling": "show_overall"})}
    return {
        "id": ids.take(f"{scheme.name}_{OVERALL_PART}"),
        **filled({"name": row.get("label")}),
        "description": row.get("description") or OVERALL_QUESTION,
        "weight": 0,
        "method": {"type": "ratings"},
        "scale": row["scale"],
        **kept_as("potato", named),
    }


def read_free_rows(scheme: RubricScheme, kept: Kept) -> tuple[Row, Row]:
    """The rubric's `overall` and `notes`, and the stored rest: everything if they are disabled, else unknown keys."""
    rows: Row = {}
    overall, notes = scheme.overall, scheme.notes
    if overall is None and scheme.show_overall:
        rows["overall"] = {"scale": scheme.scale_of({})}
    elif overall is not None and overall.enabled:
        texts = {"label": overall.label, "description": overall.description}
        scale = scheme.scale_of(overall.scale_descriptions)
        rows["overall"] = {**filled(texts), "scale": scale}
    if notes is not None and notes.enabled:
        texts = {"label": notes.label, "placeholder": notes.placeholder}
        rows["notes"] = filled(texts)
    left = {}
    for name, row in (("overall", overall), ("notes", notes)):
        unplaced = {} if row is None else row.left if row.enabled else row.model_dump(exclude_unset=True)
        if unplaced:
            left[name] = kept.note_all(f"{name}.", unplaced)
    return rows, left
