"""tau-bench: conversations of an agent with tools and a simulated user, with the reward of each.

Shapes: results of sierra-research/tau-bench (a list of task_id, trial, reward, traj) and of tau2-bench (simulations).
"""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, Field

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, CaseId, SampleIndex
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, mapping_or_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, as_score, import_results
from gradebook.rubrics.model.json_values import Row

NAME, RATER = "tau-bench", "tau-bench"
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")


class _Run(OpenMapping):
    """One conversation. traj: its messages; empty if the program failed."""

    task_id: CaseId
    trial: SampleIndex = 0
    traj: Annotated[list[dict[str, Any]] | None, Field(validation_alias=AliasChoices("traj", "messages"))] = None
    reward: float | None = None
    reward_info: Any = None
    info: Any = None

    @property
    def score(self) -> float | None:
        """Reward, 0..1; None if the run has none."""
        return as_score(mapping_or_empty(self.reward_info).get("reward") if self.reward is None else self.reward)


class _Source(NamedTuple):
    """Facts of a file about its runs: the model, and the domain (each domain numbers its tasks from 0)."""

    model: str | None = None
    domain: str | None = None


def _runs_in(reading: Reading) -> Iterator[tuple[Reading, _Source]]:
    """Runs, each with the facts in its file."""
    content = mapping_or_empty(reading.value)
    listed = content.get("simulations")
    if not isinstance(listed, list):
        yield reading, _Source()
        return
    info = mapping_or_empty(content.get("info"))
    name_sources = (info.get("agent_info"), "llm"), (info.get("environment_info"), "domain_name")
    facts = [mapping_or_empty(section).get(key) for section, key in name_sources]
    source = _Source(*(fact if isinstance(fact, str) and fact else None for fact in facts))
    for index, run in enumerate(listed):
        yield reading.within(("simulations", index), run), source


def read_tau_bench(text: str, path: str) -> Imported:
    """Import conversations as outputs, and rewards as ratings by `tau-bench`. Raises `RubricError`."""
    entries = open_rows(text, path)
    runs = [
        (run, source) for row in entries for entry, source in _runs_in(row) if (run := entry.fit(_Run, entry.value))
    ]
    entries[0].stop_at_faults()
    if not runs:
        entries[0].stop(("simulations",), "found an empty list, expected runs")
    stored_fields = FieldCounts()
    rows = [(_row(run, source, stored_fields), [Mark("reward", run.score)]) for run, source in runs]
    return import_results(RATER, entries[0].within((), None), rows, stored_fields, ["reward"])


def _row(run: _Run, source: _Source, stored_fields: FieldCounts) -> Row:
    case_id = f"{source.domain}/{run.task_id}" if source.domain else run.task_id
    key_columns: Row = {"case_id": case_id, "model": source.model or UNKNOWN_MODEL, "sample_index": run.trial}
    extra = stored_fields.note_all(
        "", {**drop_empty({"info": run.info, "reward_info": run.reward_info}), **run.unknown_keys}
    )
    conversation = [_message(message) for message in run.traj or ()]
    if any(message.get("role") == "assistant" for message in conversation):
        return {**key_columns, "messages": conversation, **as_metadata(NAME, extra)}
    error = mapping_or_empty(run.info).get("error")
    stored_fields.note("runs without a word of the agent, read as empty outputs")
    step = {"kind": "model", "name": "agent", "error": error if isinstance(error, str) and error else "failed"}
    prompt = {"prompt": conversation} if conversation else {}
    return {**key_columns, **prompt, "output": "", "steps": [step], **as_metadata(NAME, extra)}


def _message(entry: Row) -> Row:
    """Message with tool calls in chat form; tau2-bench writes them flat."""
    calls = entry.get("tool_calls")
    chat = [
        call
        if "function" in call
        else {"id": call.get("id"), "function": {k: call.get(k) for k in ("name", "arguments")}}
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, dict)
    ]
    message = {name: entry[name] for name in _MESSAGE_KEYS if name != "tool_calls" and entry.get(name) is not None}
    result = (
        {"tool_call_id": entry["id"]}
        if entry.get("role") == "tool" and "tool_call_id" not in message and entry.get("id")
        else {}
    )
    failed = {"is_error": True} if entry.get("role") == "tool" and entry.get("error") is True else {}
    return {"content": "", **message, **result, **failed, **({"tool_calls": chat} if chat else {})}


SUMMARY = "conversations of tau-bench and tau2-bench, with their rewards"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_tau_bench)
