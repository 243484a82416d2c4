"""Export of rubrics as AutoRubric lists: flat, for a judge, with the weights that give the same score."""

from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds
from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import plain_yaml
from gradebook.rubrics.importers.metadata import Kept, filled, kept_of, mapping_of, note_lost, note_method, plain_number
from gradebook.rubrics.importers.requirements import are_met_levels
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion, Rubric, effective_weights

LIST_KEY = "rubric"


def write_autorubric(rubric: Rubric) -> Exported:
    """Write the rubric as YAML, one section per category; gates are included with the weight 0."""
    lost = Kept()
    note_lost(rubric, "autorubric", lost, "", "name category gate levels scale")
    kept = kept_of(rubric.metadata, "autorubric")
    weights = effective_weights(rubric)
    entries: list[Row] = []
    sections: dict[str, Row] = {}
    for criterion in rubric.criteria:
        question = _question(criterion, weights[criterion.id], lost)
        name = criterion.category
        if name is None:
            entries.append(question)
        elif name in sections:
            sections[name]["criteria"].append(question)
            if entries[-1] is not sections[name]:
                lost.note("the order of criteria (those of a section stand together)")
        else:
            left = mapping_of(mapping_of(kept.get("sections")).get(name))
            sections[name] = {"name": name, **left, "criteria": [question]}
            entries.append(sections[name])
    beside = mapping_of(kept.get("file"))
    whole = {**beside, LIST_KEY: entries} if beside else entries
    return Exported(plain_yaml(whole), lost.words())


def _question(criterion: Criterion, weight: float, lost: Kept) -> Row:
    note_method(criterion.method, "judge", lost)
    if criterion.gate:
        lost.note("criteria.gate (written with the weight 0)")
    kept = kept_of(criterion.metadata, "autorubric")
    aside = kept.get("na_options")
    options = _options(criterion, kept, lost)
    options += aside if options and isinstance(aside, list) else []
    question: Row = {
        "name": criterion.name or criterion.id,
        "requirement": criterion.description,
        "weight": plain_number(weight),
        **({"scale_type": kept["scale_type"]} if kept.get("scale_type") in ("ordinal", "nominal") else {}),
        **filled({"options": options}),
    }
    placed = (*question, "scale_type", "na_options", "options")
    return question | {key: value for key, value in kept.items() if key not in placed}


def _ids_read_from(labels: list[str]) -> list[str]:
    """Ids that an import makes of the options' labels."""
    ids = DistinctIds("level", LEVEL_ID)
    return [ids.take(label) for label in labels]


def _options(criterion: Criterion, kept: Row, lost: Kept) -> list[Row]:
    """Levels as options; empty if they only mean not met and met."""
    if are_met_levels(criterion):
        return []
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    lost.note(*("criteria.levels.indicators" for level in levels if level.indicators))
    texts = [": ".join(filter(None, (level.label, level.description))) or level.id for level in levels]
    labels = texts
    if _ids_read_from(texts) != [level.id for level in levels]:  # otherwise they come from an import, and may be alike
        labels = [
            f"{level.id}: {text}" if texts.count(text) > 1 else text for level, text in zip(levels, texts, strict=True)
        ]
    pairs = zip(levels, _ids_read_from(labels), strict=True)
    lost.note(*("criteria.levels.id (made anew of the option's label)" for level, again in pairs if again != level.id))
    left = mapping_of(kept.get("options"))
    return [
        {"label": label, "value": plain_number(level.score), **mapping_of(left.get(level.id))}
        for level, label in zip(levels, labels, strict=True)
    ]
