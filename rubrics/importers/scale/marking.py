"""Ratings and verdicts of a run as annotations of the responses in Scale rows, before they are exported."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL
from gradebook.rubrics.importers.metadata import Kept, mapping_of
from gradebook.rubrics.importers.scale.exporting import criterion_key, write_scale
from gradebook.rubrics.importers.scale.importing import LEVELS, read_scale
from gradebook.rubrics.importers.scale.shapes import Annotation
from gradebook.rubrics.model.rows import Row

OutputKey = tuple[str, str, int]  # case, model, sample
Marks = Mapping[tuple[str, str], str | None]  # level by criterion and rater; None: taken back


def output_key(row: Row) -> OutputKey:
    """Output that a row or a rating belongs to."""
    return row["case_id"], row.get("model") or UNKNOWN_MODEL, row.get("sample_index") or 0


def annotate(rows: Sequence[Row], marks: Mapping[OutputKey, Marks]) -> tuple[list[Row], Kept]:
    """Rows with the marks as annotations; a rater's earlier annotation of a criterion is replaced. Returns what has no
    place among the annotations too.
    """
    lost = Kept()
    return [
        _annotated(row, marks[key], lost) if "output" in row and (key := output_key(row)) in marks else row
        for row in rows
    ], lost


def _annotated(row: Row, marks: Marks, lost: Kept) -> Row:
    row = deepcopy(row)
    message = mapping_of(mapping_of(mapping_of(row.get("metadata")).get("scale")).get("message"))
    keys = {each["id"]: criterion_key(each["id"], number) for number, each in enumerate(row["criteria"])}
    placed, left = [], iter(read_scale(write_scale([row]).text, "a row to export").ratings)
    replaced = set()
    for each in message.get("annotations") or ():
        if Annotation.model_validate(each).rated is None:
            placed.append(each)
            continue
        rating = next(left)
        mark = (rating["criterion_id"], rating["rater"])
        replaced.add(mark)
        level = marks.get(mark, rating["level_id"])
        if level is not None:
            placed.append({**each, "value": level})
    known = [str(level["id"]) for level in LEVELS]
    for (criterion_id, rater), level in marks.items():
        if level is None or (criterion_id, rater) in replaced:
            continue
        if criterion_id not in keys or level not in known:
            lost.note(f"ratings and verdicts of other criteria, or with other levels than {', '.join(known)}")
            continue
        key = keys[criterion_id]
        placed.append({"id": f"{key}_rating", "value": level, "rater": rater, "metadata": {"criteria": key}})
    scale = {**mapping_of(mapping_of(row.get("metadata")).get("scale")), "message": {**message, "annotations": placed}}
    return {**row, "metadata": {**mapping_of(row.get("metadata")), "scale": scale}}
