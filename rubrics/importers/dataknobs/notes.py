"""Notes that each format leaves in the other's `metadata`, for lossless round trips.

`metadata.dataknobs` of a rubric and of its criteria: content of the foreign file that the plain rubric lacks.
`metadata.gradebook` of a foreign rubric: content of the rubric that the plain one lacks, criteria by their foreign id.

Both are overlays. A part of `metadata.dataknobs` that would undo an edit made since the import is not applied.
"""

from collections.abc import Callable, Collection, Iterator

from pydantic import ValidationError

from gradebook.rubrics.importers.dataknobs.overlays import LEFT_OUT, absent_names, laid_over, overlay_of
from gradebook.rubrics.importers.dataknobs.terms import (
    NAMESPACES,
    ForeignCriterion,
    ForeignRubric,
    understand_criterion,
    understand_head,
    without_namespaces,
)
from gradebook.rubrics.importers.ids import may_be_id_of
from gradebook.rubrics.importers.metadata import Kept, filled, kept_of, mapping_of
from gradebook.rubrics.model.rows import Row

OURS, THEIRS = NAMESPACES
DEFAULTS = {"required": "criteria.required", "indicators": "levels.indicators"}  # defaults that a file may always omit

# Content that dataknobs reads in another form: a name equal to the id, a scale as levels, effective weights.
IN_OTHER_WORDS = ("name", "scale", "levels")
NESTED = ("scoring_method", "levels")  # parts of a criterion's notes that are overlays themselves


def notes_of(part: Row) -> Row:
    """Notes that an import left in a rubric's or criterion's metadata; empty if there is anything else."""
    return kept_of(mapping_of(part.get("metadata")), THEIRS)


def omitted_defaults(foreign: Row) -> list[str]:
    """Defaults that the foreign file omits somewhere: its export omits them too."""
    criteria = foreign["criteria"]
    levels = [level for criterion in criteria for level in criterion.get("levels") or ()]
    return [key for key, parts in (("required", criteria), ("indicators", levels)) if any(key not in p for p in parts)]


def omitted_by(notes: Row) -> list[str]:
    """Defaults omitted by the file, according to a rubric's notes."""
    return [key for key, name in DEFAULTS.items() if name in absent_names(notes)]


def notes_of_rubric(foreign: Row, expressed: Row, omitted: Collection[str]) -> Row:
    """Content of the foreign rubric, without its criteria, that the re-expressed one lacks."""
    notes = overlay_of(head_of(foreign), head_of(expressed))
    names = [*absent_names(notes), *(DEFAULTS[key] for key in omitted)]
    return {**notes, LEFT_OUT: names} if names else notes


def notes_of_criterion(foreign: Row, expressed: Row, plain: Row) -> Row:
    """Content of the foreign criterion that the re-expressed one lacks; its levels by gradebook's ids."""
    notes = overlay_of(foreign, expressed, ("scoring_method",))
    levels = plain.get("levels", ())
    if "levels" in notes and levels:
        pairs = zip(foreign["levels"], expressed["levels"], strict=True)
        overlays = [overlay_of(theirs, again) for theirs, again in pairs]
        notes["levels"] = {level["id"]: left for level, left in zip(levels, overlays, strict=True) if left}
    return notes


def head_of(rubric: Row) -> Row:
    """A rubric, or a foreign one, without its criteria."""
    return {key: value for key, value in rubric.items() if key != "criteria"}


def lay_over_notes(expressed: Row, plain: Row, wanted: Row) -> Row:
    """Apply an import's notes to the foreign rubric, as long as gradebook still reads the wanted content from it.

    expressed: the foreign rubric of the plain one; wanted: the keys of the rubric, with the notes.
    """

    def read(candidate: Row) -> Row:
        found = ForeignRubric.model_validate({**candidate, "criteria": expressed["criteria"]})
        fits = may_be_id_of(plain["id"], found.id)
        return {"metadata": {}, **understand_head(found), "id": plain["id"] if fits else None}

    head = head_of(plain) | {"metadata": without_namespaces(plain.get("metadata", {}))}
    foreign = _lay_over_safely(head_of(expressed), notes_of(wanted), read, head)
    if isinstance(foreign.get("metadata"), dict):
        foreign["metadata"] = {key: value for key, value in foreign["metadata"].items() if key != OURS}
    criteria: list[Row] = []
    taken: set[str] = set()
    for criterion, simple, whole in zip(expressed["criteria"], plain["criteria"], wanted["criteria"], strict=True):
        criteria.append(_lay_over_criterion_notes(criterion, simple, notes_of(whole), taken))
        taken.add(criteria[-1]["id"])
    return {**foreign, "criteria": criteria}


def overlay_of_rubric(wanted: Row, back: Row, foreign: Row) -> Row:
    """Content of the rubric that gradebook would not read back from the foreign one."""
    riding = overlay_of(head_of(wanted), head_of(back))
    criteria = {
        theirs["id"]: overlay_of(criterion, again, ("method",))
        for criterion, again, theirs in zip(wanted["criteria"], back["criteria"], foreign["criteria"], strict=True)
    }
    return riding | filled({"criteria": filled(criteria)})


def lay_over_rubric(rubric: Row, riding: Row, foreign: Row, kept: Kept) -> Row:
    """Apply the notes that an export left in the foreign rubric's metadata."""
    left = dict(riding.get("criteria", {}))
    criteria = [
        laid_over(criterion, left.pop(theirs["id"], {}), ("method",))
        for criterion, theirs in zip(rubric["criteria"], foreign["criteria"], strict=True)
    ]
    for criterion_id in left:
        kept.note(f"metadata.{OURS}.criteria.{criterion_id} (no criterion has that id: dropped)")
    return {**laid_over(head_of(rubric), head_of(riding)), "criteria": criteria}


def kept_names(rubric: Row) -> Iterator[str]:
    """Foreign names of the content under `metadata.dataknobs`, repeated for each occurrence."""
    yield from _names("", notes_of(rubric))
    for criterion in rubric["criteria"]:
        notes = notes_of(criterion)
        method, levels = mapping_of(notes.get("scoring_method")), mapping_of(notes.get("levels"))
        yield from _names("criteria.", {key: value for key, value in notes.items() if key not in NESTED})
        yield from _names("scoring_method.", {key: value for key, value in method.items() if key != "type"})
        for left in levels.values():
            yield from _names("levels.", mapping_of(left))


def unseen_names(riding: Row) -> Iterator[str]:
    """Names of the content under `metadata.gradebook` only, which dataknobs does not read."""
    yield from (key for key in riding if key not in ("criteria", LEFT_OUT, *IN_OTHER_WORDS))
    for overlay in riding.get("criteria", {}).values():
        is_penalty = overlay.get("weight", 0) < 0
        seen = (LEFT_OUT, *IN_OTHER_WORDS, *(() if is_penalty else ("weight",)))
        yield from (f"criteria.{key}" for key in overlay if key not in seen)


def _names(prefix: str, notes: Row) -> Iterator[str]:
    yield from (f"{prefix}{key}" for key in filled(notes, (LEFT_OUT,)))


def _lay_over_criterion_notes(expressed: Row, plain: Row, notes: Row, taken: Collection[str]) -> Row:
    def read(candidate: Row) -> Row:
        found = ForeignCriterion.model_validate(candidate)
        fits = found.id not in taken and may_be_id_of(plain["id"], found.id)
        return understand_criterion(found, plain["id"]) | {"id": plain["id"] if fits else None}

    if isinstance(notes.get("levels"), dict):
        ids = [level["id"] for level in plain.get("levels") or expressed["levels"]]
        overlays = [notes["levels"].get(level_id) for level_id in ids]
        pairs = zip(expressed["levels"], overlays, strict=True)
        levels = [laid_over(level, overlay) if isinstance(overlay, dict) else level for level, overlay in pairs]
        notes = {**notes, "levels": levels}
    return _lay_over_safely(expressed, notes, read, plain)


def _lay_over_safely(given: Row, notes: Row, read: Callable[[Row], Row], wanted: Row) -> Row:
    """Apply each part of an overlay, unless the result is further from the wanted content, or cannot be read."""
    read_before = read(given)
    parts = [{key: value} for key, value in notes.items() if key != LEFT_OUT]
    for part in [*parts, *({LEFT_OUT: [name]} for name in absent_names(notes))]:
        candidate = laid_over(given, part, ("scoring_method",))
        try:
            read_now = read(candidate)
        except ValidationError:
            continue
        keys = {*read_now, *read_before}
        if all(read_now.get(key) in (read_before.get(key), wanted.get(key)) for key in keys):
            given, read_before = candidate, read_now
    return given
