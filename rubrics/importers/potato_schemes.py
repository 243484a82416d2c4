"""Potato's schemes `rubric_eval` and `trajectory_eval` as criteria; criteria of the latter as that scheme.

Potato's `rubric_eval`: criteria that people rate on one scale, as criteria of the method `ratings`.
A scheme has a `scale {min, max, labels}` with descriptions per criterion and point, or `scale_points` and
`scale_labels`. Potato's own score, sum(weight * rating) / sum(weight), lies between min and max; gradebook's is (that -
min) / (max - min). A `likert`, a `slider` and a `radio` of numbers are schemes of one
criterion.

Potato's `trajectory_eval`: people mark the errors in an agent's steps, and each error deducts points from a start.
The running score is `initial` plus the weight of each error's severity: 100 with one minor (-1) and one major (-5)
error is 94. As a points rubric, whose score is sum(weight * score) / sum of the positive weights, it becomes

- `running_score`, weight `initial`: the start, the only positive weight, on a check that every output passes;
- for each kind of error and each severity, a penalty whose level is the number of such errors, 0 to `most`, the count
  that uses up the start: ceil(initial / -severity). Level n scores n / most and the weight is most * severity, so n
  errors take most * severity * n / most = n * severity points;
- `step_correctness`, weight 0: the steps' labels as levels, worst first; people label each step by them, and it does
  not affect the score.

With -1 and -5, `most` is 100 and 20 and both weights are -100:
(100 * 1 - 100 * 1/100 - 100 * 1/20) / 100 = (100 - 1 - 5) / 100 = 0.94.

The kinds and severities are the rubric's taxonomy too, so that marks of steps are stored by it. Lost are errors of
one kind and severity beyond `most`, which is at most 100 (a severity smaller than a hundredth of the start reaches that
limit while points are left; the import reports it). Errors that together deduct more than the start give a negative
score. Each count has to be rated, 0 if there is no such error: a missing one leaves the score undefined, as any missing
verdict does.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, BeforeValidator, Field

from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading
from gradebook.rubrics.importers.ids import DistinctIds
from gradebook.rubrics.importers.metadata import (
    FieldCounts,
    as_metadata,
    drop_empty,
    imported_metadata,
    mapping_or_empty,
    plain_number,
)
from gradebook.rubrics.importers.ratings.trajectory import SCORE_OF_LABEL
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.levels import MOST_LEVELS
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT, Criterion
from gradebook.rubrics.text.plain_words import Place
from gradebook.rubrics.text.wording import counted

DEFAULT_POINTS = 5  # points of a scheme without a scale
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
    required: bool = True
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
        """Whether the scheme is spelled with `scale_points`, `scale_labels` and `show_overall`."""
        return self.scale is None and bool(self.scale_points or self.scale_labels or self.show_overall)

    def scale_of(self, points: Texts) -> Row:
        """Scale of a criterion with these descriptions of points."""
        lowest, highest = self.bounds
        return {
            "min": lowest,
            "max": highest,
            **drop_empty({"points": drop_empty(points), "labels": drop_empty(self.labels)}),
        }


class LikertScheme(_Criterion):
    """Scheme `likert`: one criterion on a scale of 1 to `size`."""

    size: Annotated[int, Field(ge=2, le=MOST_LEVELS)]
    min_label: str | None = None
    max_label: str | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest point."""
        return 1, self.size


class SliderScheme(_Criterion):
    """Scheme `slider`: one criterion on a scale of whole numbers."""

    min_value: Annotated[int, Field(ge=0)]
    max_value: Annotated[int, Field(ge=1)]
    min_label: str | None = None
    max_label: str | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest point."""
        return self.min_value, self.max_value


class RadioScheme(_Criterion):
    """Scheme `radio` whose labels are consecutive whole numbers: one criterion on their scale."""

    labels: list[Any]
    min_label: str | None = None
    max_label: str | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest point."""
        points = points_of(self.labels) or [0]
        return points[0], points[-1]


def points_of(labels: Any) -> list[int]:
    """Labels of a `radio` as consecutive whole numbers, ascending; empty for other labels."""
    listed = labels if isinstance(labels, list) else []
    names = [label.get("name") if isinstance(label, dict) else label for label in listed]
    if not all(re.fullmatch(r"[0-9]{1,3}", str(name)) for name in names):
        return []
    points = sorted(int(str(name)) for name in names)
    is_sequence = len(points) > 1 and points == [*range(points[0], points[-1] + 1)]
    return points if is_sequence else []


def as_rubric_scheme(scheme: LikertScheme | SliderScheme | RadioScheme) -> RubricScheme:
    """Scheme `rubric_eval` of the one criterion."""
    lowest, highest = scheme.bounds
    fields = {name: getattr(scheme, name) for name in _Criterion.model_fields}
    return RubricScheme(
        annotation_type="rubric_eval",
        name=scheme.name,
        scale=_Scale(
            min=lowest, max=highest, labels=drop_empty({str(lowest): scheme.min_label, str(highest): scheme.max_label})
        ),
        criteria=[_Criterion.model_validate({**scheme.unknown_keys, **fields})],
    )


def note_rubric_faults(scheme: RubricScheme, reading: Reading) -> None:
    """Record faults that types cannot express: points outside the scale, repeated names, two scales."""
    lowest, highest = scheme.bounds
    if not 1 <= highest - lowest < MOST_LEVELS:
        message = f"found {lowest} to {highest}, expected 2 to {MOST_LEVELS} points from min to max"
        reading.note(("scale",), message)
        return
    if scheme.scale and (scheme.scale_points or scheme.scale_labels):
        key = "scale_points" if scheme.scale_points else "scale_labels"
        reading.note((key,), "found it next to scale, expected one of them")
    elif scheme.scale_labels and len(scheme.scale_labels) != highest - lowest + 1:
        message = f"found {counted(len(scheme.scale_labels), 'label')}, expected {highest - lowest + 1}, one per point"
        reading.note(("scale_labels",), message)
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


def read_criteria(scheme: RubricScheme, ids: DistinctIds, stored_fields: FieldCounts) -> tuple[list[Row], Row]:
    """Criteria of a scheme, and its stored other content."""
    criteria = [_criterion(criterion, scheme, ids.take(criterion.name), stored_fields) for criterion in scheme.criteria]
    extra = stored_fields.note_all("", scheme.unknown_keys)
    if scheme.scale and scheme.scale.unknown_keys:
        extra["scale"] = stored_fields.note_all("scale.", scheme.scale.unknown_keys)
    return criteria, extra


def _criterion(criterion: _Criterion, scheme: RubricScheme, criterion_id: str, stored_fields: FieldCounts) -> Row:
    renamed = {} if criterion.name == criterion_id else stored_fields.note_all("criteria.", {"name": criterion.name})
    extra = stored_fields.note_all("criteria.", criterion.unknown_keys)
    return {
        "id": criterion_id,
        **drop_empty({"name": criterion.label}),
        "description": criterion.description or criterion.label or criterion.name,
        **({} if criterion.weight is None else {"weight": plain_number(criterion.weight)}),
        "method": {"type": "ratings"},
        "scale": scheme.scale_of(criterion.scale_descriptions),
        **as_metadata("potato", {**renamed, **drop_empty({"criterion": extra})}),
    }


def overall_criterion(scheme: RubricScheme, row: Row, ids: DistinctIds) -> Row:
    """Overall row of a further scheme, as a criterion without weight: a rubric has one overall row.

    row: as `read_free_rows` gives it.
    """
    overall_keys = {
        "part": OVERALL_PART,
        "name": OVERALL_PART,
        **({} if scheme.overall else {"spelling": "show_overall"}),
    }
    return {
        "id": ids.take(f"{scheme.name}_{OVERALL_PART}"),
        **drop_empty({"name": row.get("label")}),
        "description": row.get("description") or OVERALL_QUESTION,
        "weight": 0,
        "method": {"type": "ratings"},
        "scale": row["scale"],
        **as_metadata("potato", overall_keys),
    }


def read_free_rows(scheme: RubricScheme, stored_fields: FieldCounts) -> tuple[Row, Row]:
    """(the rubric's `overall` and `notes`, stored content: everything if they are disabled, else unknown keys)."""
    rows: Row = {}
    overall, notes = scheme.overall, scheme.notes
    if overall is None and scheme.show_overall:
        rows["overall"] = {"scale": scheme.scale_of({})}
    elif overall is not None and overall.enabled:
        texts = {"label": overall.label, "description": overall.description}
        scale = scheme.scale_of(overall.scale_descriptions)
        optional = {} if overall.required else {"required": False}
        rows["overall"] = {**drop_empty(texts), "scale": scale, **optional}
    if notes is not None and notes.enabled:
        texts = {"label": notes.label, "placeholder": notes.placeholder}
        rows["notes"] = drop_empty(texts)
    extra = {}
    for name, row in (("overall", overall), ("notes", notes)):
        unplaced = {} if row is None else row.unknown_keys if row.enabled else row.model_dump(exclude_unset=True)
        if unplaced:
            extra[name] = stored_fields.note_all(f"{name}.", unplaced)
    return rows, extra


MOST_COUNTS = 1_000  # criteria of counts: kinds of error times severities
MOST_ERRORS = MOST_LEVELS - 1
LARGEST_POINTS = 100_000
_BETWEEN_WORDS = re.compile(r"[\s_-]+")
DIGITS = 9  # decimals of a weight, which remove the rounding error of 34 * 0.3
DEFAULT_START = 100
DEFAULT_SEVERITIES = {"minor": -1, "major": -5, "critical": -10}
DEFAULT_LABELS = ("correct", "incorrect", "partially_correct")
UNKNOWN_LABEL_SCORE = 0.5

Points = Annotated[float, Field(gt=0, le=LARGEST_POINTS, allow_inf_nan=False)]


class Spelling(NamedTuple):
    """Keys of one of the two spellings of schemes."""

    groups: str
    group_name: str
    types: str
    severities: str
    labels: str
    start: str


TAXONOMY = Spelling("error_taxonomy", "category", "types", "severity_levels", "step_correctness", "running_score")
ERROR_TYPES = Spelling("error_types", "name", "subtypes", "severities", "correctness_options", "max_score")


class _Named(OpenMapping):
    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("name", "value", "label"))]


def _name_alone(value: Any) -> Any:
    """Convert a bare name to a mapping."""
    return {"name": value} if isinstance(value, str) else value


Entry = Annotated[_Named, BeforeValidator(_name_alone)]


class _Severity(_Named):
    weight: Annotated[float, Field(ge=-LARGEST_POINTS, le=0, allow_inf_nan=False)]

    def most(self, start: float) -> int:
        """Number of errors at which the scale ends."""
        return math.ceil(min(MOST_ERRORS, start / -self.weight)) if self.weight else MOST_ERRORS


def _default_severities() -> list[_Severity]:
    return [_Severity(name=name, weight=weight) for name, weight in DEFAULT_SEVERITIES.items()]


class _Group(OpenMapping):
    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("category", "name"))]
    types: Annotated[list[Entry], Field(default_factory=list, validation_alias=AliasChoices("types", "subtypes"))]


class _Correctness(OpenMapping):
    labels: Annotated[list[Entry], Field(min_length=2)]


class _Start(OpenMapping):
    initial: Points = DEFAULT_START


class TrajectoryScheme(OpenMapping):
    """Scheme `trajectory_eval` in either spelling, with `error_taxonomy` or with `error_types`."""

    annotation_type: str
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    groups: Annotated[
        list[Annotated[_Group, BeforeValidator(_name_alone)]],
        Field(min_length=1, validation_alias=AliasChoices("error_taxonomy", "error_types")),
    ]
    severities: Annotated[
        list[_Severity],
        Field(
            default_factory=_default_severities,
            min_length=1,
            validation_alias=AliasChoices("severity_levels", "severities"),
        ),
    ]
    step_correctness: _Correctness | None = None
    correctness_options: Annotated[list[Entry], Field(min_length=2)] | None = None
    running_score: _Start | None = None
    max_score: Points | None = None

    @property
    def start(self) -> float:
        """Running score of a trajectory without errors."""
        return self.running_score.initial if self.running_score else self.max_score or DEFAULT_START

    @property
    def labels(self) -> Sequence[_Named]:
        """Labels of a step."""
        labels = self.step_correctness.labels if self.step_correctness else self.correctness_options
        return labels or [_Named(name=name) for name in DEFAULT_LABELS]


def spelling_of(scheme: Row) -> Spelling:
    """Spelling of a scheme of the file."""
    return ERROR_TYPES if ERROR_TYPES.groups in scheme else TAXONOMY


def note_trajectory_faults(scheme: TrajectoryScheme, raw: Row, reading: Reading) -> None:
    """Record faults that types cannot express: repeated names or keys, too many counts. raw: as in the file."""
    keys = spelling_of(raw)
    reading.note_repeats((group.name for group in scheme.groups), (keys.groups,), keys.group_name)
    for index, group in enumerate(scheme.groups):
        reading.note_repeats((kind.name for kind in group.types), (keys.groups, index, keys.types), "name")
    for key, entries in ((keys.severities, scheme.severities), (keys.labels, scheme.labels)):
        reading.note_repeats((entry.name for entry in entries), (key,), "name")
    other_keys = TAXONOMY if keys == ERROR_TYPES else ERROR_TYPES
    for key, other_key in zip(keys, other_keys, strict=True):
        if key not in ("name", "category", "types", "subtypes") and raw.get(other_key) is not None:
            reading.note((other_key,), f"found it next to {keys.groups}, expected {key}")
    count = sum(len(group.types) or 1 for group in scheme.groups) * len(scheme.severities)
    if count > MOST_COUNTS:
        reading.note((keys.groups,), f"found {count} kinds with a severity, expected at most {MOST_COUNTS}")


def read_trajectory(
    scheme: TrajectoryScheme, raw: Row, ids: DistinctIds, stored_fields: FieldCounts
) -> tuple[list[Row], Row]:
    """Criteria of a scheme, and its stored other content."""
    criteria = [_start_criterion(scheme.start), _steps_criterion(scheme.labels, stored_fields)]
    for group in scheme.groups:
        kinds: Sequence[_Named | None] = group.types or [None]
        for kind in kinds:
            criteria += [_count_criterion(scheme.start, group, kind, severity) for severity in scheme.severities]
    for severity in scheme.severities:
        if severity.weight and scheme.start / -severity.weight > MOST_ERRORS:
            stored_fields.note(
                f"severity {severity.name}: more than {MOST_ERRORS} errors of one kind, rated as that many"
            )
    with_ids = [{**criterion, "id": ids.take(criterion["id"])} for criterion in criteria]
    return with_ids, {
        **stored_fields.note_all("", scheme.unknown_keys),
        **_details(scheme, spelling_of(raw), stored_fields),
    }


def _start_criterion(start: float) -> Row:
    return {
        "id": "running_score",
        "description": "The points that every trajectory starts with; its errors take from them.",
        "weight": plain_number(start),
        "method": {"type": "check", "check": "length_characters", "settings": {"min": 0}},  # every output passes
        "metadata": {"potato": {"part": "start"}},
    }


def _steps_criterion(labels: Sequence[_Named], stored_fields: FieldCounts) -> Row:
    ids = DistinctIds()
    levels: list[Row] = []
    for name in (label.name for label in labels):
        score = _label_score(name)
        if score is None:
            stored_fields.note(f"step label {name}: no score in the format, taken for {UNKNOWN_LABEL_SCORE}")
            score = UNKNOWN_LABEL_SCORE
        level_id = ids.take(name)
        levels.append({"id": level_id, "score": score, **drop_empty({"label": None if name == level_id else name})})
    return {
        "id": "step_correctness",
        "description": "Is each step right?",
        "weight": 0,
        "method": {"type": "ratings", "unit": "step"},
        "levels": sorted(levels, key=lambda level: float(level["score"])),
        "metadata": {"potato": {"part": "steps"}},
    }


def taxonomy_of(scheme: TrajectoryScheme) -> Row:
    """Taxonomy of a rubric with the scheme's kinds of error. Penalties are shares of its start, out of 100."""
    severity_ids = DistinctIds()
    penalties = (
        (severity, round(min(-severity.weight / scheme.start, 1) * 100, DIGITS)) for severity in scheme.severities
    )
    groups = ((group, {"subtypes": _kinds((kind, {}) for kind in group.types)}) for group in scheme.groups)
    severities = {severity_ids.take(severity.name): plain_number(points) for severity, points in penalties}
    return {"types": _kinds(groups), "severities": severities}


def _kinds(entries: Iterable[tuple[_Named | _Group, Row]]) -> list[Row]:
    ids = DistinctIds()
    kinds = []
    for entry, more in entries:
        description = entry.unknown_keys.get("description")
        kind_id = ids.take(entry.name)
        columns = {
            "name": None if entry.name == kind_id else entry.name,
            "description": description if isinstance(description, str) else None,
        }
        kinds.append({"id": kind_id, **drop_empty(columns), **drop_empty(more)})
    return kinds


def _label_score(name: str) -> float | None:
    return SCORE_OF_LABEL.get(" ".join(_BETWEEN_WORDS.split(name.strip().lower())))


def _count_criterion(start: float, group: _Group, kind: _Named | None, severity: _Severity) -> Row:
    most = severity.most(start)
    names = [group.name] if kind is None else [group.name, kind.name]
    question = f"How many errors of the kind {' / '.join(names)}, severity {severity.name}, does the trajectory have?"
    more = (kind or group).unknown_keys.get("description")
    points = plain_number(severity.weight)
    part = {"part": "errors", "category": group.name, "severity": severity.name, "points": points}
    return {
        "id": "_".join((*names, severity.name)),
        "name": f"{' / '.join(names)}: {severity.name}",
        "description": f"{question} {more}" if isinstance(more, str) else question,
        "weight": plain_number(round(most * severity.weight, DIGITS)),
        "method": {"type": "ratings"},
        "scale": {"min": 0, "max": most},
        "metadata": {"potato": part if kind is None else {**part, "type": kind.name}},
    }


def _details(scheme: TrajectoryScheme, keys: Spelling, stored_fields: FieldCounts) -> Row:
    """Content of the file's entries besides names and weights, under its keys; an export merges the rubric into it."""
    groups = []
    for group in scheme.groups:
        kinds = _entries_with_more(group.types, f"{keys.types}.", stored_fields)
        more = stored_fields.note_all(f"{keys.groups}.", group.unknown_keys)
        if kinds or more:
            groups.append({keys.group_name: group.name, **more, **drop_empty({keys.types: kinds})})
    labels = _entries_with_more(scheme.labels, f"{keys.labels}.", stored_fields)
    of_steps = (
        stored_fields.note_all(f"{keys.labels}.", scheme.step_correctness.unknown_keys)
        if scheme.step_correctness
        else {}
    )
    blocks = {
        keys.groups: groups,
        keys.severities: _entries_with_more(scheme.severities, f"{keys.severities}.", stored_fields),
        keys.labels: labels if keys == ERROR_TYPES else {**drop_empty({"labels": labels}), **of_steps},
        keys.start: stored_fields.note_all(f"{keys.start}.", scheme.running_score.unknown_keys)
        if scheme.running_score
        else {},
    }
    return drop_empty(blocks)


def _entries_with_more(entries: Sequence[_Named], prefix: str, stored_fields: FieldCounts) -> list[Row]:
    return [
        {"name": entry.name, **stored_fields.note_all(prefix, entry.unknown_keys)}
        for entry in entries
        if entry.unknown_keys
    ]


GROUP_KEYS = ("category", "name")
ENTRY_KEYS = ("name", "value", "label")


def is_of_trajectory(criterion: Criterion) -> bool:
    """Whether the criterion was imported from a `trajectory_eval`."""
    return imported_metadata(criterion.metadata, "potato").get("part") in ("start", "steps", "errors")


def trajectory_blocks(criteria: Sequence[Criterion], imported: Row, lost_fields: FieldCounts) -> Row:
    """Keys of the scheme, without its name and description. imported: data stored by the import."""
    taxonomy: dict[str, list[str]] = {}
    severities: dict[str, float | int] = {}
    start, labels = plain_number(DEFAULT_START), list(DEFAULT_LABELS)
    for criterion in criteria:
        part = imported_metadata(criterion.metadata, "potato")
        match part:
            case {"part": "start"}:
                start = plain_number(criterion.weight or DEFAULT_START)
            case {"part": "steps"}:
                best_first = sorted(criterion.ranked_levels, key=lambda level: -level.score)
                labels = [level.label or level.id for level in best_first]
            case {"category": str(group), "severity": str(severity)}:
                kinds = taxonomy.setdefault(group, [])
                if isinstance(part.get("type"), str) and part["type"] not in kinds:
                    kinds.append(part["type"])
                points = _points_of_an_error(criterion, part.get("points"))
                if severities.setdefault(severity, points) != points:
                    lost_fields.note(f"{criterion.id}.weight")
            case _:
                lost_fields.note(criterion.id)
    return _blocks(taxonomy, severities, labels, start, imported)


def _points_of_an_error(criterion: Criterion, points: Any) -> float | int:
    """Points of one error: the stored points, if they still agree with the weight."""
    most, weight = len(criterion.ranked_levels) - 1, min(0.0, criterion.weight or 0.0)
    is_number = isinstance(points, int | float) and not isinstance(points, bool)
    if is_number and round(points * most, DIGITS) == weight:
        return plain_number(points)
    return plain_number(round(weight / most, DIGITS))


def _blocks(
    taxonomy: dict[str, list[str]],
    severities: dict[str, float | int],
    labels: list[str],
    start: float | int,
    imported: Row,
) -> Row:
    weights = [{"name": name, "weight": weight} for name, weight in severities.items()]
    of_file = mapping_or_empty(imported.get("scheme"))
    groups: list[Row]
    if imported.get("spelling") == ERROR_TYPES.groups:
        keys = ERROR_TYPES
        groups = [{"name": group, "subtypes": kinds} for group, kinds in taxonomy.items()]
        fresh: list[Any] = [groups, weights, labels, start]
    else:
        keys = TAXONOMY
        named_kinds = {group: [{"name": kind} for kind in kinds] for group, kinds in taxonomy.items()}
        groups = [{"category": group, "types": kinds} for group, kinds in named_kinds.items()]
        fresh = [groups, weights, {"labels": labels}, {"initial": start}]
    names = (keys.groups, keys.severities, keys.labels, keys.start)
    blocks = {
        name: _overlay(of_file.get(name), block, GROUP_KEYS if name == keys.groups else ENTRY_KEYS)
        for name, block in zip(names, fresh, strict=True)
    }
    return {**blocks, **drop_empty(of_file, names)}


def _overlay(imported: Any, fresh: Any, name_keys: tuple[str, ...]) -> Any:
    """Merge the rubric's content into the stored content of the file; entries of lists are matched by name."""
    if isinstance(imported, dict) and isinstance(fresh, dict):
        return {**imported, **{key: _overlay(imported.get(key), value, ENTRY_KEYS) for key, value in fresh.items()}}
    if isinstance(imported, list) and isinstance(fresh, list):
        by_name = {_name_of(entry, name_keys): entry for entry in imported if isinstance(entry, dict)}
        return [_overlay_entry(by_name.get(_name_of(entry, name_keys)), entry, name_keys) for entry in fresh]
    return fresh


def _overlay_entry(imported: Any, fresh: Any, name_keys: tuple[str, ...]) -> Any:
    if imported is None:
        return fresh
    other_keys = {key: value for key, value in mapping_or_empty(fresh).items() if key not in name_keys}
    return _overlay(imported, other_keys, ENTRY_KEYS)


def _name_of(entry: Any, name_keys: tuple[str, ...]) -> str:
    names = (entry.get(key) for key in name_keys) if isinstance(entry, dict) else (entry,)
    return next((name for name in names if isinstance(name, str)), "")
