"""Export of rubrics as Potato's annotation schemes: a form for people.

A scheme has one scale, so the criteria of a category (or of the rubric, if it lists none) with a common scale form a
`rubric_eval` scheme; levels become the points 1 to n, worst first. Criteria that came from a `trajectory_eval` are
written back into one.
"""

from collections.abc import Sequence

from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.interfaces import Exported
from gradebook.rubrics.importers.json_lines import plain_yaml
from gradebook.rubrics.importers.metadata import Kept, filled, kept_of, mapping_of, note_lost, note_method, plain_number
from gradebook.rubrics.importers.potato.rubric_eval import OVERALL_PART, OVERALL_QUESTION
from gradebook.rubrics.importers.potato.trajectory_export import is_of_trajectory, trajectory_blocks
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion, Rubric

EVEN = 1e-9

Texts = dict[str, str]


def write_potato(rubric: Rubric) -> Exported:
    """Write a configuration with the rubric's schemes. Returns also the content that they cannot express."""
    lost = Kept()
    kept = kept_of(rubric.metadata, "potato")
    groups = _groups(rubric, lost)
    _note_rubric(rubric, lost)
    schemes, owns = [], []
    for name, criteria in groups.items():
        is_only = len(groups) == 1
        own = kept if is_only else _kept_of_category(rubric, criteria[0].category)
        description = rubric.description if is_only else _category_description(rubric, criteria[0].category)
        is_trajectory = is_of_trajectory(criteria[0])
        blocks = trajectory_blocks(criteria, own, lost) if is_trajectory else _rubric_blocks(criteria, own, lost)
        kind = "trajectory_eval" if is_trajectory else "rubric_eval"
        shown = {"description": description} if description else {}
        schemes.append({"annotation_type": kind, "name": name, **shown, **blocks})
        owns.append(own)
    _add_free_rows(rubric, schemes, owns, lost)
    config, others = mapping_of(kept.get("config")), kept.get("other_schemes")
    if len(groups) > 1:
        config = {"annotation_task_name": rubric.name or rubric.id, **config}
    every = [*schemes, *(others if isinstance(others, list) else [])]
    return Exported(plain_yaml({**config, "annotation_schemes": every}), lost.words())


def _note_rubric(rubric: Rubric, lost: Kept) -> None:
    expressed = "taxonomy" if any(map(is_of_trajectory, rubric.criteria)) else ""
    note_lost(
        rubric,
        "potato",
        lost,
        f"name description overall notes {expressed}",
        "name category levels scale",
        "description",
    )
    for criterion in rubric.criteria:
        if not is_of_trajectory(criterion):
            note_method(criterion.method, "ratings", lost)


def _groups(rubric: Rubric, lost: Kept) -> dict[str, list[Criterion]]:
    """Criteria of each scheme, by its name."""
    found: dict[tuple[str | None, tuple[str, ...]], list[Criterion]] = {}
    for criterion in rubric.criteria:
        category = criterion.category if rubric.categories else None
        points = ("steps",) if is_of_trajectory(criterion) else tuple(_points(criterion.ranked_levels))
        found.setdefault((category, points), []).append(criterion)
    named: dict[str, list[Criterion]] = {}
    for (category, points), criteria in found.items():
        kept_name = _kept_of_category(rubric, category).get("name")
        name = kept_name if isinstance(kept_name, str) else category or _title(rubric)
        if name in named:
            lost.note("one form for all criteria (a scheme has one scale)")
            name = DistinctIds(taken=named).take(f"{name}_{'_to_'.join(points[:1] + points[1:][-1:])}")
        named[name] = criteria
    if len(named) == 1 and rubric.name and rubric.name not in named:
        lost.note("name")
    if len(named) > 1 and rubric.description:
        lost.note("description")
    return named


def _title(rubric: Rubric) -> str:
    """Name from which an import makes the rubric's id."""
    return rubric.name if rubric.name and identifier(rubric.name, "rubric") == rubric.id else rubric.id


def _kept_of_category(rubric: Rubric, category_id: str | None) -> Row:
    kept = (kept_of(category.metadata, "potato") for category in rubric.categories if category.id == category_id)
    return next(kept, {})


def _category_description(rubric: Rubric, category_id: str | None) -> str:
    return next((category.description for category in rubric.categories if category.id == category_id), "")


def _points(levels: Sequence[Level]) -> dict[str, Level]:
    """Points for the levels: their ids if these are consecutive whole numbers, else 1 to n."""
    ids = [level.id for level in levels]
    first = int(ids[0]) if ids[0].isascii() and ids[0].isdigit() else 1
    are_points = ids == [str(point) for point in range(first, first + len(ids))]
    return {str(point): level for point, level in enumerate(levels, start=first if are_points else 1)}


def _rubric_blocks(criteria: Sequence[Criterion], kept: Row, lost: Kept) -> Row:
    """Keys of a `rubric_eval`, without its name and description. kept: data stored by the import."""
    overall = next((each for each in criteria if kept_of(each.metadata, "potato").get("part") == OVERALL_PART), None)
    labels = [_labels(criterion.ranked_levels) for criterion in criteria]
    shared = labels[0] if all(own == labels[0] for own in labels) else {}
    if not shared and any(level.label for criterion in criteria for level in criterion.ranked_levels):
        lost.note("criteria.levels.label")
    is_weighted = any(
        not criterion.gate and (criterion.weight is None or criterion.weight > 0) for criterion in criteria
    )
    return {
        **_scale(_points(criteria[0].ranked_levels), shared, kept),
        "criteria": [_criterion(each, lost, is_weighted=is_weighted) for each in criteria if each is not overall],
        **filled(mapping_of(kept.get("scheme")), ("scale",)),
        **({} if overall is None else _overall_of_scheme(overall, kept, lost)),
    }


def _overall_of_scheme(criterion: Criterion, kept: Row, lost: Kept) -> Row:
    """Overall row of a further scheme, from its criterion."""
    texts = _descriptions(criterion.ranked_levels, lost)
    description = None if criterion.description == OVERALL_QUESTION else criterion.description
    row = filled({"label": criterion.name, "description": description, "scale_descriptions": texts})
    if not row and kept_of(criterion.metadata, "potato").get("spelling") == "show_overall":
        return {"show_overall": True}
    return {"overall": {"enabled": True, **row, **_kept_in_scheme(kept, "overall")}}


def _labels(levels: Sequence[Level]) -> Texts:
    names = {point: level.label or ("" if level.id == point else level.id) for point, level in _points(levels).items()}
    return {point: name for point, name in names.items() if name}


def _scale(points: dict[str, Level], labels: Texts, kept: Row) -> Row:
    numbers = [int(point) for point in points]
    if kept.get("spelling") == "scale_points" and numbers[0] == 1:
        texts = [labels.get(point, "") for point in points]
        return {"scale_points": len(numbers), **({"scale_labels": texts} if labels else {})}
    named = {"labels": {int(point): label for point, label in labels.items()}} if labels else {}
    return {"scale": {"min": numbers[0], "max": numbers[-1], **named, **_kept_in_scheme(kept, "scale")}}


def _kept_in_scheme(kept: Row, key: str) -> Row:
    return mapping_of(mapping_of(kept.get("scheme")).get(key))


def _criterion(criterion: Criterion, lost: Kept, *, is_weighted: bool) -> Row:
    kept = kept_of(criterion.metadata, "potato")
    name = kept.get("name") if isinstance(kept.get("name"), str) else criterion.id
    weight = criterion.weight
    if criterion.gate or (weight is not None and weight < 0):
        weight = 0 if is_weighted else None  # a form whose weights are all 0 has no score
        kind, written = "gate" if criterion.gate else "weight below 0", "weight 0" if is_weighted else "no weight"
        lost.note(f"criteria.{kind} (written with {written})")
    texts = _descriptions(criterion.ranked_levels, lost)
    return {
        "name": name,
        **filled({"label": criterion.name}),
        **({} if criterion.description == (criterion.name or name) else {"description": criterion.description}),
        **({} if weight is None else {"weight": plain_number(weight)}),
        **filled({"scale_descriptions": texts}),
        **mapping_of(kept.get("criterion")),
    }


def _descriptions(levels: Sequence[Level], lost: Kept) -> dict[int, str]:
    """Descriptions of the points; records properties of levels that points cannot express."""
    points = _points(levels)
    for index, (point, level) in enumerate(points.items()):
        if level.id != point:
            lost.note("criteria.levels.id")
        if abs(level.score - index / (len(levels) - 1)) > EVEN:
            lost.note("criteria.levels.score (points lie at equal steps)")
        if level.indicators:
            lost.note("criteria.levels.indicators")
    return {int(point): level.description for point, level in points.items() if level.description}


def _add_free_rows(rubric: Rubric, schemes: Sequence[Row], owns: Sequence[Row], lost: Kept) -> None:
    """Put the rubric's overall row and notes into its first `rubric_eval`. owns: data of each scheme's import."""
    forms = [pair for pair in zip(schemes, owns, strict=True) if pair[0]["annotation_type"] == "rubric_eval"]
    if not forms:
        lost.note(*(name for name in ("overall", "notes") if getattr(rubric, name)))
        return
    (first, kept), overall, notes = forms[0], rubric.overall, rubric.notes
    if overall:
        lowest, highest = _bounds(first)
        points = _points(overall.ranked_levels)
        fits = [*points] == [str(point) for point in range(lowest, highest + 1)]
        texts = _descriptions(overall.ranked_levels, lost) if fits else {}
        if not fits:
            lost.note("overall.scale")
        row = filled({"label": overall.label, "description": overall.description, "scale_descriptions": texts})
        if "scale_points" in first and not row and not _kept_in_scheme(kept, "overall"):
            first["show_overall"] = True
        else:
            first["overall"] = {"enabled": True, **row, **_kept_in_scheme(kept, "overall")}
    if notes:
        texts_of_notes = notes.model_dump(exclude_none=True)
        first["notes"] = {"enabled": True, **texts_of_notes, **_kept_in_scheme(kept, "notes")}


def _bounds(scheme: Row) -> tuple[int, int]:
    scale = mapping_of(scheme.get("scale"))
    return (scale["min"], scale["max"]) if scale else (1, scheme["scale_points"])
