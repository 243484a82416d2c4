"""Potato's `trajectory_eval`: people mark the errors in an agent's steps, and each error deducts points from a start.

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
from gradebook.rubrics.importers.metadata import Kept, filled, plain_number
from gradebook.rubrics.importers.ratings.trajectory import SCORE_OF_LABEL
from gradebook.rubrics.model.levels import MOST_LEVELS
from gradebook.rubrics.model.rows import Row

MOST_COUNTS = 1_000  # kinds of error times severities
MOST_ERRORS = MOST_LEVELS - 1
LARGEST_POINTS = 100_000
_BETWEEN_WORDS = re.compile(r"[\s_-]+")
DIGITS = 9  # of a weight, to remove the rounding error of 34 * 0.3
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
        given = self.step_correctness.labels if self.step_correctness else self.correctness_options
        return given or [_Named(name=name) for name in DEFAULT_LABELS]


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


def read_trajectory(scheme: TrajectoryScheme, raw: Row, ids: DistinctIds, kept: Kept) -> tuple[list[Row], Row]:
    """Criteria of a scheme, and the stored rest of it."""
    criteria = [_start_criterion(scheme.start), _steps_criterion(scheme.labels, kept)]
    for group in scheme.groups:
        kinds: Sequence[_Named | None] = group.types or [None]
        for kind in kinds:
            criteria += [_count_criterion(scheme.start, group, kind, severity) for severity in scheme.severities]
    for severity in scheme.severities:
        if severity.weight and scheme.start / -severity.weight > MOST_ERRORS:
            kept.note(f"severity {severity.name}: more than {MOST_ERRORS} errors of one kind, rated as that many")
    named = [{**criterion, "id": ids.take(criterion["id"])} for criterion in criteria]
    return named, {**kept.note_all("", scheme.left), **_details(scheme, spelling_of(raw), kept)}


def _start_criterion(start: float) -> Row:
    return {
        "id": "running_score",
        "description": "The points that every trajectory starts with; its errors take from them.",
        "weight": plain_number(start),
        "method": {"type": "check", "check": "length_characters", "settings": {"min": 0}},  # every output passes
        "metadata": {"potato": {"part": "start"}},
    }


def _steps_criterion(labels: Sequence[_Named], kept: Kept) -> Row:
    ids = DistinctIds()
    levels: list[Row] = []
    for name in (label.name for label in labels):
        score = _label_score(name)
        if score is None:
            kept.note(f"step label {name}: no score in the format, taken for {UNKNOWN_LABEL_SCORE}")
            score = UNKNOWN_LABEL_SCORE
        level_id = ids.take(name)
        levels.append({"id": level_id, "score": score, **filled({"label": None if name == level_id else name})})
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
        words = entry.left.get("description")
        kind_id = ids.take(entry.name)
        named = {
            "name": None if entry.name == kind_id else entry.name,
            "description": words if isinstance(words, str) else None,
        }
        kinds.append({"id": kind_id, **filled(named), **filled(more)})
    return kinds


def _label_score(name: str) -> float | None:
    return SCORE_OF_LABEL.get(" ".join(_BETWEEN_WORDS.split(name.strip().lower())))


def _count_criterion(start: float, group: _Group, kind: _Named | None, severity: _Severity) -> Row:
    most = severity.most(start)
    names = [group.name] if kind is None else [group.name, kind.name]
    question = f"How many errors of the kind {' / '.join(names)}, severity {severity.name}, does the trajectory have?"
    more = (kind or group).left.get("description")
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


def _details(scheme: TrajectoryScheme, keys: Spelling, kept: Kept) -> Row:
    """Content of the file's entries besides names and weights, under its keys; an export merges the rubric into it."""
    groups = []
    for group in scheme.groups:
        kinds = _entries_with_more(group.types, f"{keys.types}.", kept)
        more = kept.note_all(f"{keys.groups}.", group.left)
        if kinds or more:
            groups.append({keys.group_name: group.name, **more, **filled({keys.types: kinds})})
    labels = _entries_with_more(scheme.labels, f"{keys.labels}.", kept)
    of_steps = kept.note_all(f"{keys.labels}.", scheme.step_correctness.left) if scheme.step_correctness else {}
    blocks = {
        keys.groups: groups,
        keys.severities: _entries_with_more(scheme.severities, f"{keys.severities}.", kept),
        keys.labels: labels if keys == ERROR_TYPES else {**filled({"labels": labels}), **of_steps},
        keys.start: kept.note_all(f"{keys.start}.", scheme.running_score.left) if scheme.running_score else {},
    }
    return filled(blocks)


def _entries_with_more(entries: Sequence[_Named], prefix: str, kept: Kept) -> list[Row]:
    return [{"name": entry.name, **kept.note_all(prefix, entry.left)} for entry in entries if entry.left]
