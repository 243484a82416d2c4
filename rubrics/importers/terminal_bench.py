"""Terminal-Bench: whether each trial resolved its task, and which of the task's tests it passed.

Shape: `BenchmarkResults` of laude-institute/terminal-bench. The agent's messages are in other files.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, CaseId, number_samples
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, mapping_or_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, import_results, model_step
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.text.plain_words import quote_value

NAME, RATER = "terminal-bench", "terminal-bench"
_NO_FAILURE = ("unset", "none", None)


class _Trial(OpenMapping):
    task_id: CaseId
    instruction: str | None = None
    is_resolved: bool | None = None
    failure_mode: str | None = None
    parser_results: Annotated[dict[str, str], BeforeValidator(lambda value: {} if value is None else value)] = Field(
        default_factory=dict
    )
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    agent_started_at: Any = None
    agent_ended_at: Any = None

    @property
    def marks(self) -> list[Mark]:
        """Marks: whether the task is resolved, and the share of passed tests."""
        is_passed = [result == "passed" for result in self.parser_results.values()]
        failed_tests = sorted(name for name, result in self.parser_results.items() if result != "passed")
        notes = f"failed: {', '.join(failed_tests)}" if failed_tests else ""
        resolved = None if self.is_resolved is None else float(self.is_resolved)
        return [
            Mark("resolved", resolved, notes),
            Mark("tests", sum(is_passed) / len(is_passed) if is_passed else None, notes),
        ]

    @property
    def step(self) -> Row:
        counts = [count for count in (self.total_input_tokens, self.total_output_tokens) if count is not None]
        error = None if self.failure_mode in _NO_FAILURE else self.failure_mode
        latency = _milliseconds(self.agent_started_at, self.agent_ended_at)
        return model_step("agent", tokens=sum(counts) if counts else None, latency_ms=latency, error=error)


def _milliseconds(begin: Any, end: Any) -> float | None:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() * 1e3
    except (TypeError, ValueError):
        return None


def read_terminal_bench(text: str, path: str) -> Imported:
    """Import trials as outputs without text, and their results as ratings by `terminal-bench`. Raises `RubricError`."""
    entries = open_rows(text, path)
    trials = [
        trial for entry in entries for reading in _trials_in(entry) if (trial := reading.fit(_Trial, reading.value))
    ]
    entries[0].stop_at_faults()
    stored_fields = FieldCounts()
    stored_fields.note("no words of the agent: its outputs are empty, and scored by the ratings alone")
    rows = number_samples([_row(trial, stored_fields) for trial in trials])
    marked = [(row, trial.marks) for row, trial in zip(rows, trials, strict=True)]
    return import_results(RATER, entries[0].within((), None), marked, stored_fields, ["resolved", "tests"])


def _trials_in(entry: Reading) -> list[Reading]:
    """Trials of a file of results, or a trial itself."""
    if "results" not in mapping_or_empty(entry.value):
        return [entry]
    listed = entry.value["results"]
    if not isinstance(listed, list) or not listed:
        entry.stop(("results",), f"found {quote_value(listed)}, expected a list of trials")
    return [entry.within(("results", index), trial) for index, trial in enumerate(listed)]


def _row(trial: _Trial, stored_fields: FieldCounts) -> Row:
    extra = stored_fields.note_all("", {**trial.unknown_keys, **drop_empty({"parser_results": trial.parser_results})})
    prompt = drop_empty({"prompt": trial.instruction})
    return {
        "case_id": trial.task_id,
        "model": UNKNOWN_MODEL,
        **prompt,
        "output": "",
        **trial.step,
        **as_metadata(NAME, extra),
    }


SUMMARY = "results of Terminal-Bench: which tasks were resolved, which tests passed"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_terminal_bench)
