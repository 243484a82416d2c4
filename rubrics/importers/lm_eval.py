"""lm-evaluation-harness: samples of a task as logged by `--log_samples`, with their metrics.

Shapes: lm_eval/loggers/evaluation_tracker.py of EleutherAI/lm-evaluation-harness. A file is named
`samples_TASK_DATE.jsonl` and lies in a folder named after the model. A row is a document under one filter; the rows of
a document are one output, with a metric of each filter.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import Field

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, CaseId, logged_prompt
from gradebook.rubrics.importers.foreign_file import OpenMapping, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, as_score, import_results
from gradebook.rubrics.model.json_values import Row, drop_none

NAME = "lm-eval"
_FILE = re.compile(r"samples_(.+?)(?:_[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9.:-]+)?")
_HASHES = ("doc_hash", "prompt_hash", "target_hash")
_NO_FILTER = "none"


class _Sample(OpenMapping):
    doc_id: CaseId
    doc: Any = None
    target: Any = None
    arguments: dict[str, dict[str, Any]] | list[list[Any]]
    resps: Annotated[list[Any], Field(min_length=1)]
    filtered_resps: list[Any] | None = None
    filter: str | None = None
    metrics: list[str] | None = None

    @property
    def requests(self) -> list[list[Any]]:
        """Arguments of each request: a prompt, and a continuation or settings."""
        if isinstance(self.arguments, list):
            return self.arguments
        return [list(arguments.values()) for arguments in self.arguments.values()]

    @property
    def answers(self) -> list[str]:
        """Answers of the model: its texts, or the likeliest of several continuations; none if it only rated a text."""
        first = self.resps[0]
        generated = first if isinstance(first, list) else [first]
        if all(isinstance(text, str) for text in generated) and not self._likelihoods:
            return generated
        if (best := self._likeliest) is not None and (text := self._continuation(best)) is not None:
            return [text]
        return []

    @property
    def _likelihoods(self) -> list[float]:
        """Log-likelihood of each continuation; empty if texts were generated (the second argument is then settings)."""
        if not all(len(request) > 1 and isinstance(request[1], str) for request in self.requests):
            return []
        likelihoods = [_first_number(response) for response in self.resps]
        return [number for number in likelihoods if number is not None] if None not in likelihoods else []

    @property
    def _likeliest(self) -> int | None:
        likelihoods = self._likelihoods
        return likelihoods.index(max(likelihoods)) if likelihoods else None

    def _continuation(self, index: int) -> str | None:
        request = self.requests[index] if index < len(self.requests) else []
        text = request[1] if len(request) > 1 else None
        return text.strip() if isinstance(text, str) else None

    @property
    def prompt(self) -> Any:
        """Prompt of the first request: a text, or chat messages, which the log has as JSON text."""
        request = self.requests[0][0] if self.requests and self.requests[0] else None
        return logged_prompt(request[0] if isinstance(request, list) and len(request) == 1 else request)

    @property
    def reference(self) -> str | None:
        """Right answer; for a choice, which the log has as an index, the text of the continuation."""
        target = self.target if isinstance(self.target, str) else None
        if isinstance(self.target, int | float) and not isinstance(self.target, bool):
            target = json.dumps(self.target)
        if target is not None and len(self._likelihoods) > 1 and re.fullmatch(r"[0-9]{1,6}", target):
            return self._continuation(int(target)) or target
        return target or None

    def marks(self, stored_fields: FieldCounts) -> Iterator[Mark]:
        """Marks by metrics with values in 0..1; other metrics are counted in `stored_fields`."""
        values = self.model_extra or {}
        names = self.metrics if self.metrics is not None else [name for name in values if name not in _HASHES]
        suffix = f",{self.filter}" if self.filter and self.filter != _NO_FILTER else ""
        for name in dict.fromkeys(names):
            score = as_score(values.get(name))
            if score is None and name in values:
                stored_fields.note(f"{name} (no number from 0 to 1)")
            elif name.strip():
                yield Mark(f"{name}{suffix}", score)


def _first_number(value: Any) -> float | None:
    """First number of a response, which may be nested and logged as a text."""
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_lm_eval(text: str, path: str) -> Imported:
    """Import the samples of one task as outputs, with ratings by `lm-eval`. Raises `RubricError` with every fault."""
    entries = open_rows(text, path)
    documents: dict[str, list[_Sample]] = {}
    for entry in entries:
        sample = entry.fit(_Sample, entry.value)
        if sample is not None:
            same = documents.setdefault(sample.doc_id, [])
            if same and same[0].resps != sample.resps:
                entry.note(("resps",), f"found other responses for the document {sample.doc_id!r}, expected equal ones")
            same.append(sample)
    entries[0].stop_at_faults()
    stored_fields = FieldCounts()
    rows = [row for samples in documents.values() for row in _rows_of(samples, path, stored_fields)]
    return import_results(NAME, entries[0].within((), None), rows, stored_fields)


def _rows_of(samples: Sequence[_Sample], path: str, stored_fields: FieldCounts) -> Iterator[tuple[Row, list[Mark]]]:
    """Rows of a document, one per response. Metrics become marks only if there is a single response."""
    first_sample = samples[0]
    task, model = _names_of(path)
    marks = [mark for sample in samples for mark in sample.marks(stored_fields)]
    extracted = {sample.filter or _NO_FILTER: sample.filtered_resps for sample in samples if sample.filtered_resps}
    answers = first_sample.answers
    if len(answers) > 1 and marks:
        stored_fields.note("metrics (of several responses together)")
    for index, answer in enumerate(answers or [None]):
        extra = stored_fields.note_all("", drop_empty({"doc": first_sample.doc, "filtered_resps": extracted}))
        yield (
            {
                "case_id": f"{task}/{first_sample.doc_id}" if task else first_sample.doc_id,
                **({} if answer is None else {"model": model, "output": answer}),
                **({"sample_index": index} if index else {}),
                **drop_none({"prompt": first_sample.prompt, "reference": first_sample.reference}),
                **as_metadata(NAME, extra),
            },
            marks if len(answers) == 1 else [],
        )


def _names_of(path: str) -> tuple[str | None, str]:
    """Task and model of a file, from its name and its folder's name, in which `/` is written `__`."""
    file = PurePath(path)
    match = _FILE.fullmatch(file.name.partition(".json")[0])
    folder = file.parent.name
    is_model = match is not None and "__" in folder
    return (match[1] if match else None), (folder.replace("__", "/") if is_model else UNKNOWN_MODEL)


SUMMARY = "samples of a task that lm-evaluation-harness logged, with their metrics"
FORMAT = Format(NAME, SUMMARY, ".jsonl", "results", read_lm_eval)
