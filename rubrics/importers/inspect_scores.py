"""Inspect's scores as ratings of a log's samples; a run reads the outputs from the log itself.

Shapes: inspect_ai/log/_log.py and inspect_ai/scorer/_metric.py of UKGovernmentBEIS/inspect_ai. A score's value is a
number, a letter (C correct, P partial, I incorrect, N no answer), a truth value, or several of them by name; NaN means
not scored.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gradebook.rubrics.importers.case_rows import CaseId
from gradebook.rubrics.importers.foreign_file import OpenMapping, each_row, open_json
from gradebook.rubrics.importers.metadata import FieldCounts, mapping_or_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, as_score, import_results
from gradebook.rubrics.model.json_values import Row

NAME, RATER = "inspect-scores", "inspect"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # value_to_float of inspect_ai
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class _Score(OpenMapping):
    value: Any = None
    explanation: str | None = None


class _Sample(OpenMapping):
    id: CaseId
    epoch: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    scores: Annotated[dict[str, _Score], BeforeValidator(lambda value: {} if value is None else value)] = Field(
        default_factory=dict
    )
    output: dict[str, Any] | None = None

    def marks(self, stored_fields: FieldCounts) -> Iterator[Mark]:
        """Marks of each scorer; a named value becomes the metric `SCORER.NAME`.

        Values that are no score are counted.
        """
        for scorer, score in self.scores.items():
            listed = score.value if isinstance(score.value, dict) else {None: score.value}
            for name, value in listed.items():
                metric = scorer if name is None else f"{scorer}.{name}"
                number = _score_of(value)
                if number is None and value is not None:
                    stored_fields.note(f"{metric} (no score from 0 to 1)")
                elif metric.strip():
                    yield Mark(metric, number, score.explanation or "")


class _Eval(OpenMapping):
    task: str | None = None
    model: str | None = None


class _Log(OpenMapping):
    head: Annotated[_Eval, Field(validation_alias="eval")]
    samples: Annotated[list[_Sample], Field(min_length=1)]


def _score_of(value: Any) -> float | None:
    if isinstance(value, str):
        return _LETTERS.get(value, _WORDS.get(value.lower()))
    return as_score(value)


def read_inspect_scores(text: str, path: str) -> Imported:
    """Import the scores of a log, or a list of them, as ratings by `inspect`, and a rubric. Raises `RubricError`."""
    reading = open_json(text, path, is_nan_null=True)
    entries = each_row(reading) if isinstance(reading.value, list) else [reading]
    logs = [log for entry in entries if (log := entry.fit(_Log, entry.value))]
    reading.stop_at_faults()
    stored_fields = FieldCounts()
    rows = [(_key_columns(sample, log.head), [*sample.marks(stored_fields)]) for log in logs for sample in log.samples]
    imported = import_results(RATER, reading, rows, stored_fields)
    if not imported.ratings:
        reading.stop(("samples",), "found no scores, expected some: a run reads the log's outputs without an import")
    return replace(imported, cases=())


def _key_columns(sample: _Sample, head: _Eval) -> Row:
    """Columns that identify the sample's output in a run that reads the log."""
    model = head.model or mapping_or_empty(sample.output).get("model")
    case_id = f"{head.task}/{sample.id}" if head.task else sample.id
    key_columns = {"case_id": case_id, "model": str(model or "unknown"), "output": ""}
    return {**key_columns, **({"sample_index": sample.epoch - 1} if sample.epoch and sample.epoch > 1 else {})}


SUMMARY = "scores of an Inspect log, for the outputs that a run reads from it"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_inspect_scores)
