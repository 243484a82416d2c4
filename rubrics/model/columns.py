"""Columns of an outputs file: the required ones, and those that a user may rename."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from gradebook.rubrics.model.errors import Fault
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, REQUIRED_COLUMNS

_CONVERSATION = "messages"
_NO_NAME = "FOUND"  # in place of a likely name
# Likely names of a column in files that name it differently.
_COMMON_NAMES = {
    "case_id": ("id", "case", "prompt_id", "question_id", "key", "task_id"),
    "model": ("model_name", "model_id", "generator", "engine"),
    "prompt": ("question", "messages", "input", "instruction", "query", "text"),
    "output": ("response", "completion", "answer", "generation", "prediction", "text", "output_text"),
}


def map_faults(column_map: Mapping[str, str]) -> tuple[Fault, ...]:
    """Faults of a column map (gradebook's column -> the file's): targets that gradebook does not have."""
    columns = ", ".join(OUTPUT_COLUMNS)
    return tuple(
        Fault(f"--map {column}={source}", None, f"found {column}, expected one of {columns}")
        for column, source in column_map.items()
        if column not in OUTPUT_COLUMNS
    )


def column_faults(
    path: str,
    line: int | None,
    found: Iterable[str],
    column_map: Mapping[str, str] | None = None,
    required: Iterable[str] = REQUIRED_COLUMNS,
) -> tuple[Fault, ...]:
    """Faults of a file's columns: repeated ones, and missing ones that are mapped or required."""
    column_map = column_map or {}
    found = list(found)
    made = left_to_conversations(found, column_map) + _of_conversations(found, column_map)
    counts = Counter(found)
    shown = f"found the columns {', '.join(counts)}" if counts else "found no columns"
    twice = [f"found the column {name} {count} times, expected it once" for name, count in counts.items() if count > 1]
    mapped = [
        f"{shown}; expected {source}, which --map {column}={source} names{_repeat_words(source)}"
        for column, source in column_map.items()
        if source not in counts
    ]
    missing = [
        f"{shown}; expected {column}: name the column that holds it, --map {column}={_likely_name(column, counts)}"
        + _otherwise(column, counts)
        for column in required
        if column not in column_map and column not in counts and column not in made
    ]
    return tuple(Fault(path, line, message) for message in [*twice, *mapped, *missing])


def _repeat_words(source: str) -> str:
    """Hint for several pairs in one option."""
    return "; repeat --map for each column" if "=" in source.partition(",")[2] else ""


def holds_conversations(found: Collection[str], column_map: Mapping[str, str], *, is_run: bool = False) -> bool:
    """Whether rows of these columns hold their answer as the last of `messages`, as OpenAI's files do.

    is_run: `messages` are the run of an agent, also beside a prompt or an output.
    """
    if _CONVERSATION not in found or _CONVERSATION in column_map.values():
        return False
    return is_run or not {"prompt", "output"} & {*found, *column_map}


def left_to_conversations(
    found: Collection[str], column_map: Mapping[str, str], *, is_run: bool = False
) -> tuple[str, ...]:
    """Columns besides prompt and output that such rows may leave out: those that nothing in the row looks like."""
    if not holds_conversations(found, column_map, is_run=is_run):
        return ()
    is_open = {column: not {column, *_COMMON_NAMES[column]} & set(found) for column in ("case_id", "model")}
    return tuple(column for column, is_missing in is_open.items() if is_missing and column not in column_map)


def _of_conversations(found: Collection[str], column_map: Mapping[str, str]) -> tuple[str, ...]:
    return ("prompt", "output") if holds_conversations(found, column_map) else ()


def _otherwise(column: str, found: Collection[str]) -> str:
    """Another way out, if no column of the file holds this one."""
    if column == "model":
        return ", or name it with --model"
    is_of_prompts = column == "case_id" and "prompt" in found and _likely_name(column, found) == _NO_NAME
    return ", or tell cases apart by their prompts, --map case_id=prompt" if is_of_prompts else ""


def _likely_name(column: str, found: Iterable[str]) -> str:
    """Column in the file that most likely corresponds to this one, or the word FOUND."""
    present = set(found)
    return next((name for name in _COMMON_NAMES.get(column, ()) if name in present), _NO_NAME)
