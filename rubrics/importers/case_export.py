"""Rows of cases written in a foreign format, with what the format can't say found by reading it again."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.importers.case_rows import CaseId, Prompt, SampleIndex, Words, prompt_key
from gradebook.rubrics.importers.foreign_file import Reading, each_row
from gradebook.rubrics.importers.interfaces import Exported, Imported, Row
from gradebook.rubrics.importers.json_lines import strange_values
from gradebook.rubrics.importers.metadata import Kept, kept_of, plain_number
from gradebook.rubrics.model.rubric import CaseCriterion

_EXPORTED = "the rows to export"


class Case(BaseModel):
    """A row of `Imported.cases`, as `write` takes it."""

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
        """What the import from this format kept with the row."""
        return kept_of(self.metadata, name)


def weight_of(criterion: CaseCriterion) -> float | int:
    """A criterion's weight as a file has it: 5 for 5.0; 1 where none is given."""
    return 1 if criterion.weight is None else plain_number(criterion.weight)


def prompt_text(prompt: Any) -> str:
    """A prompt as one text: chat messages below each other, each after its role; a lone one as it is."""
    if not isinstance(prompt, list):
        return prompt or ""
    if len(prompt) == 1:
        return str(prompt[0]["content"])
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)


def export_cases(
    rows: Sequence[Row], write: Callable[[list[Case]], str], read: Callable[[str, str], Imported]
) -> Exported:
    """The rows as a foreign text; lost is whatever a reading of that text does not give back.

    Raises `RubricError` where a row is no case, or does not fit the format.
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
    """The fields of a row that the text lost; those of the metadata and of the criteria one by one."""
    if case.prompt is not None and prompt_key(case.prompt) != prompt_key(twin.prompt):
        yield "prompt"
    for column in ("output", "reference", "context", "checkpoint"):
        if getattr(case, column) not in (None, getattr(twin, column)):
            yield column
    yield from (f"metadata.{name}" for name, kept in case.metadata.items() if twin.metadata.get(name) != kept)
    by_id = {criterion.id: criterion for criterion in twin.criteria}
    if len(case.criteria) == len(twin.criteria):  # a format that names them anew keeps their order
        by_id = {criterion.id: other for criterion, other in zip(case.criteria, twin.criteria, strict=True)}
    for criterion in case.criteria:
        if criterion.id not in by_id:
            yield f"criteria of the method {criterion.method.type}"
            continue
        read = _said(by_id[criterion.id])
        yield from (f"criteria[].{key}" for key, value in _said(criterion).items() if read.get(key) != value)


def _said(criterion: CaseCriterion) -> Row:
    """The fields that the criterion does not leave at their default; its weight in any case."""
    said: Row = criterion.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**said, "weight": weight_of(criterion)}
