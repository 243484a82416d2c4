"""OpenAI evals: items of a data set, and the output items of a run with the graders' scores.

Shapes: https://platform.openai.com/docs/api-reference/evals. The API lists the output items of a run page by page.
"""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, Field

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, CaseId, CaseShape, NonBlank, is_prompt, shape_cases
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, mapping_or_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, as_score, import_results, model_step
from gradebook.rubrics.model.json_values import Row, drop_none

NAME, RATER = "openai-evals", "openai"
_PROMPTS = ("question", "prompt", "input", "query", "instruction", "problem", "ticket_text", "text")
_REFERENCES = (
    *("reference", "reference_answer", "ideal", "ideal_answer", "ground_truth", "expected", "expected_output"),
    *("expected_answer", "correct_answer", "correct_label", "answer", "label", "target"),
)
_OUTPUTS = ("output", "output_text", "response", "completion", "model_output")
_GENERATED_NAME = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # the API adds it to a grader's name


class _Score(OpenMapping):
    name: NonBlank
    passed: bool | None = None
    score: Any = None
    reason: Any = None
    sample: Any = None

    @property
    def mark(self) -> Mark:
        score = as_score(self.score)
        if score is None and self.passed is not None and not mapping_or_empty(self.sample).get("error"):
            score = float(self.passed)
        return Mark(
            _GENERATED_NAME.sub("", self.name) or self.name, score, self.reason if isinstance(self.reason, str) else ""
        )


class _Line(CaseShape):
    has_own_prompts: ClassVar[bool] = True

    item: Annotated[dict[str, Any], Field(min_length=1, validation_alias=AliasChoices("datasource_item", "item"))]
    datasource_item_id: CaseId | None = None
    sample: Any = None
    results: list[_Score] | None = None

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.datasource_item_id, self.item

    @property
    def marks(self) -> list[Mark]:
        return [score.mark for score in self.results or ()]

    def columns(self, stored_fields: FieldCounts) -> Row:
        sample = mapping_or_empty(self.sample)
        model, output = sample.get("model"), self._output(sample)
        is_named = isinstance(model, str) and model.strip() != ""
        scored = [score.model_dump(exclude_unset=True) for score in self.results or ()]
        without = {"results": scored} if output is None else {}
        used = ("input", "output", "output_text", "model", "usage", "error")
        extra = drop_empty(
            {**self.unknown_keys, **without, "sample": drop_empty(sample, used) if sample else self.sample}
        )
        answer = {"model": model if is_named else UNKNOWN_MODEL, "output": output} if output is not None else {}
        return {
            **answer,
            **drop_none({"prompt": self._prompt(sample), "reference": _reference(self.item)}),
            **(self._step(sample, str(answer["model"])) if answer else {}),
            **as_metadata(NAME, {"item": self.item, **stored_fields.note_all("", extra)}),
        }

    def _prompt(self, sample: Row) -> Any:
        """Prompt of the sample, else the item's field with a common name, else the whole item."""
        messages = sample.get("input")
        if messages and is_prompt(messages):
            return messages
        prompts = (self.item[name] for name in _PROMPTS if name in self.item)
        fields = {name: value for name, value in self.item.items() if name not in (*_REFERENCES, *_OUTPUTS)}
        return next((text for text in prompts if is_prompt(text)), json.dumps(fields or self.item, ensure_ascii=False))

    def _output(self, sample: Row) -> str | None:
        """Text of the output, else its tool calls; "" if the sample has none, None if there is no sample."""
        if sample:
            messages = _mappings(sample.get("output"))
            texts = [message.get("content") for message in messages]
            texts += [sample.get("output_text")]
            calls = [call for message in messages for call in _mappings(message.get("tool_calls"))]
            if calls:
                texts = [json.dumps(calls, ensure_ascii=False), *texts]
            return next((text for text in reversed(texts) if isinstance(text, str) and text), "")
        return next((text for name in _OUTPUTS if isinstance(text := self.item.get(name), str)), None)

    def _step(self, sample: Row, model: str) -> Row:
        error = mapping_or_empty(sample.get("error"))
        message = ": ".join(
            text for text in (error.get("code"), error.get("message")) if isinstance(text, str) and text
        )
        return model_step(model, tokens=mapping_or_empty(sample.get("usage")).get("total_tokens"), error=message)


def _mappings(listed: Any) -> list[Row]:
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _reference(item: Row) -> str | list[str] | None:
    """First field of a common name that is a text, a number, or a list of texts."""
    for name in _REFERENCES:
        value = item.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return value
    return None


def _lines_in(text: str, path: str) -> list[Reading]:
    """Rows of the file; of a page of the API, the entries of `data`."""
    rows = open_rows(text, path)
    return [line for row in rows for line in _page_entries(row)]


def _page_entries(row: Reading) -> Iterable[Reading]:
    listed = row.value.get("data") if isinstance(row.value, dict) else None
    if isinstance(listed, list) and "item" not in row.value:
        return [row.within(("data", index), entry) for index, entry in enumerate(listed)]
    return [row]


def read_openai_evals(text: str, path: str) -> Imported:
    """Import items as cases, and output items as outputs with ratings by `openai`. Raises `RubricError`."""
    lines = _lines_in(text, path)
    if not lines:
        Reading(path, None).stop(("data",), "found an empty list, expected output items")
    stored_fields = FieldCounts()
    cases = shape_cases(lines, _Line, stored_fields)
    return import_results(RATER, lines[0].within((), None), [(row, line.marks) for line, row in cases], stored_fields)


SUMMARY = "items of OpenAI's evals, and the output items of a run with its graders' scores"
FORMAT = Format(NAME, SUMMARY, ".jsonl", "results", read_openai_evals)
