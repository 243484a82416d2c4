"""Export of case rows to a foreign format; losses are found by importing the result again."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.importers.case_rows import CaseId, Prompt, SampleIndex, Words, prompt_key
from gradebook.rubrics.importers.foreign_file import Reading, each_row
from gradebook.rubrics.importers.interfaces import Exported, Imported
from gradebook.rubrics.importers.json_lines import strange_values
from gradebook.rubrics.importers.metadata import Kept, kept_of, plain_number
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import CaseCriterion

_EXPORTED = "the rows to export"


class Case(BaseModel):
    """Row of `Imported.cases`, as accepted by `write`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: CaseId
    model: Words | None = None
    output: str | None = None
    prompt: Prompt | None = None
    reference: str | None = None
    context: str | list[str] | None = None
    checkpoint: str | int | None = None
    sample_index: SampleIndex | None = None
    metadata: dict[str, Any] = {}
    criteria: tuple[CaseCriterion, ...] = ()

    def kept(self, name: str) -> Row:
        """Data of this format stored with the row by an import."""
        return kept_of(self.metadata, name)


def weight_of(criterion: CaseCriterion) -> float | int:
    """Weight of a criterion in file notation: 5 for 5.0; default 1."""
    return 1 if criterion.weight is None else plain_number(criterion.weight)


def prompt_text(prompt: Any) -> str:
    """Prompt as one text: chat messages one below the other, each with its role; a single message without its role."""
    if not isinstance(prompt, list):
        return prompt or ""
    if len(prompt) == 1:
        return str(prompt[0]["content"])
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)


def export_cases(
    rows: Sequence[Row], write: Callable[[list[Case]], str], read: Callable[[str, str], Imported]
) -> Exported:
    """Export rows to a foreign text; `lost` is everything that reading the text does not restore.

    Raises `RubricError` if a row is not a case, or does not fit the format.
    """
    whole = Reading(_EXPORTED, [*rows])
    for place, message in strange_values(whole.value):
        whole.note(place, message)
    whole.stop_at_faults()
    cases = [case for entry in each_row(whole) if (case := entry.fit(Case, entry.value))]
    whole.stop_at_faults()
    text = write(cases)
    again = {_sample(case): case for row in read(text, _EXPORTED).cases for case in [Case.model_validate(row)]}
    lost = Kept()
    for case in cases:
        twin = again.get(_sample(case))
        lost.note(*(_changes(case, twin) if twin else ("rows",)))
    return Exported(text, lost.words())


def _sample(case: Case) -> tuple[Any, ...]:
    return case.case_id, case.model, case.sample_index or 0


def _changes(case: Case, twin: Case) -> Iterable[str]:
    """Fields of a row lost in the text, individually for metadata and criteria."""
    if case.prompt is not None and prompt_key(case.prompt) != prompt_key(twin.prompt):
        yield "prompt"
    for column in ("output", "reference", "context", "checkpoint"):
        if getattr(case, column) not in (None, getattr(twin, column)):
            yield column
    yield from (f"metadata.{name}" for name, kept in case.metadata.items() if twin.metadata.get(name) != kept)
    by_id = {criterion.id: criterion for criterion in twin.criteria}
    if len(case.criteria) == len(twin.criteria):  # a format that renames them preserves their order
        by_id = {criterion.id: other for criterion, other in zip(case.criteria, twin.criteria, strict=True)}
    for criterion in case.criteria:
        if criterion.id not in by_id:
            yield f"criteria of the method {criterion.method.type}"
            continue
        read = _set_fields(by_id[criterion.id])
        yield from (f"criteria[].{key}" for key, value in _set_fields(criterion).items() if read.get(key) != value)


def _set_fields(criterion: CaseCriterion) -> Row:
    """Fields of a criterion that differ from their defaults, and its weight."""
    fields: Row = criterion.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**fields, "weight": weight_of(criterion)}
