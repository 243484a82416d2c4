"""Export of rubrics as dataknobs JSON."""

from gradebook.rubrics.files.dump import rubric_values
from gradebook.rubrics.importers.dataknobs.importing import understand
from gradebook.rubrics.importers.dataknobs.notes import (
    OURS,
    lay_over_notes,
    notes_of,
    omitted_by,
    overlay_of_rubric,
    unseen_names,
)
from gradebook.rubrics.importers.dataknobs.terms import express_rubric
from gradebook.rubrics.importers.foreign_file import Reading
from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import indented_json
from gradebook.rubrics.importers.metadata import Kept
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion, Rubric, effective_weights

UNSEEN = "not seen by dataknobs, comes back on import"


def write_dataknobs(rubric: Rubric) -> Exported:
    """Write the rubric as dataknobs JSON; lost: content that dataknobs does not read."""
    wanted = rubric_values(rubric)
    plain = _simplify(rubric, wanted)
    foreign = express_rubric(plain, omitted_by(notes_of(wanted)))
    with_notes = lay_over_notes(foreign, plain, wanted)
    try:
        foreign, back = with_notes, _read_back(with_notes)
    except RubricError:  # its metadata.dataknobs was not left there by an import
        back = _read_back(foreign)
    riding = overlay_of_rubric(wanted, back, foreign)
    if riding and not isinstance(foreign.get("metadata"), dict):
        foreign["metadata"] = {}  # needed to hold gradebook's own data
        riding = overlay_of_rubric(wanted, _read_back(foreign), foreign)
    if riding:
        foreign["metadata"] = {**foreign["metadata"], OURS: riding}
    unseen = Kept()
    unseen.note(*unseen_names(riding))
    return Exported(indented_json(foreign), (f"{UNSEEN}: {', '.join(unseen.words())}",) if unseen.words() else ())


def _read_back(foreign: Row) -> Row:
    return understand(foreign, Reading("", foreign))


def _simplify(rubric: Rubric, wanted: Row) -> Row:
    """Reduce the rubric to keys with a place in dataknobs; its weights are those that give the same score when flat."""
    weights = effective_weights(rubric)
    has_place = ("id", "version", "name", "description", "target_type", "pass_threshold", "metadata")
    return {
        **{key: wanted[key] for key in has_place if key in wanted},
        "criteria": [_simplify_criterion(criterion, weights[criterion.id]) for criterion in rubric.criteria],
    }


def _simplify_criterion(criterion: Criterion, weight: float) -> Row:
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    method = criterion.method.model_dump(by_alias=True)
    placed = ("type", "check", "function", "schema", "template")
    named = {key: method[key] for key in placed if method.get(key) is not None}
    plain = {
        "id": criterion.id,
        "name": criterion.name,
        "description": criterion.description,
        "weight": max(weight, 0),  # dataknobs divides by the sum of all weights: it has no penalties
        "required": None if criterion.required else False,
        "levels": [level.model_dump(mode="json", exclude_defaults=True) for level in levels],
        "method": named if len(named) > 1 else {"type": "judge"},
    }
    return {key: value for key, value in plain.items() if value not in (None, [])}
