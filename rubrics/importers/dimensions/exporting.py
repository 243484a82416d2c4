"""Export of rubrics as files of dimensions. Categories are replaced by each criterion's effective weight."""

import math

from gradebook.rubrics.importers.dimensions.methods import LEVELS, method_name, question_of, source_key, without_slots
from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import indented_json
from gradebook.rubrics.importers.metadata import FIRST_VERSION, Kept, filled, given, kept_of, note_lost, plain_number
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion, Rubric, effective_weights

MOST_DIMENSIONS = 10  # the format's own limit
ASKED = ("llm_judge", "deterministic")  # methods with a question of their own
DIGITS = 9  # of a threshold, to remove the rounding error of 0.57 * 100
OWN_LEVELS = tuple(Level.model_validate(level) for level in LEVELS)


def write_dimensions(rubric: Rubric) -> Exported:
    """Write a file of dimensions and safety gates. Returns also the content that it cannot express."""
    lost, kept = Kept(), kept_of(rubric.metadata, "dimensions")
    _note_rubric(rubric, lost)
    weights = _weights(rubric, lost)
    dimensions = [_entry(criterion, weights[criterion.id], lost) for criterion in rubric.criteria if not criterion.gate]
    gates = [_entry(criterion, None, lost) for criterion in rubric.criteria if criterion.gate]
    if len(dimensions) > MOST_DIMENSIONS:
        lost.note(f"the limit of {MOST_DIMENSIONS} dimensions: {len(dimensions)} are written")
    version = rubric.version.removesuffix(".0")
    named = filled(
        {
            "id": kept.get("id", rubric.id),
            "name": rubric.name,
            "description": rubric.description,
            "owner": rubric.owner,
            "version": kept.get("version", version) if rubric.version == FIRST_VERSION else version,
            **filled(kept, ("id", "version")),
        }
    )
    names_alone = [gate["id"] if [*gate] == ["id"] else gate for gate in gates]
    return Exported(indented_json({**named, "dimensions": dimensions, "safety_gates": names_alone}), lost.words())


def _note_rubric(rubric: Rubric, lost: Kept) -> None:
    sum_key = "weight_sum" if rubric.weight_sum == 1 else ""
    note_lost(rubric, "dimensions", lost, f"version name description owner {sum_key}", "name gate threshold levels")
    lost.note(*("criteria.levels" for each in rubric.criteria if each.levels and each.levels != OWN_LEVELS))


def _weights(rubric: Rubric, lost: Kept) -> dict[str, float]:
    """Weight of each criterion, 0 or more. The weights are scaled to sum 1, unless the rubric declares that sum
    itself.
    """
    weights = effective_weights(rubric)
    if any(weight < 0 for weight in weights.values()):
        lost.note("weights below 0 (written as 0)")
    positive = {criterion_id: max(0.0, weight) for criterion_id, weight in weights.items()}
    total = sum(positive.values()) or 1.0
    if rubric.weight_sum == 1 or math.isclose(total, 1):
        return positive
    lost.note(f"the weights' sum, {total:g} (each is divided by it)")
    return {criterion_id: weight / total for criterion_id, weight in positive.items()}


def _entry(criterion: Criterion, weight: float | None, lost: Kept) -> Row:
    """Dimension, or safety gate if the weight is None."""
    kept = kept_of(criterion.metadata, "dimensions")
    method, threshold = method_name(criterion, kept, lost), criterion.threshold
    if weight is not None and threshold is None:
        lost.note("criteria without a threshold (written as 0)")
        threshold = 0
    foreign_id = str(kept.get("id", criterion.id))
    sources = {key: kept[key] for key in ("rule", "prompt") if isinstance(kept.get(key), str)}
    if criterion.description != question_of(sources, method, criterion.name, foreign_id):
        is_source = not sources and method in ASKED and without_slots(criterion.description) == criterion.description
        key = source_key(method) if is_source else "description"
        sources = {key: criterion.description, **sources}
    entry: Row = {
        "id": foreign_id,
        "name": criterion.name,
        "method": method,
        "weight": None if weight is None else plain_number(weight),
        "threshold": None if threshold is None else plain_number(round(threshold * 100, DIGITS)),
        **sources,
        **filled(kept, ("id", "method", "rule", "prompt")),
    }
    return given(entry)
