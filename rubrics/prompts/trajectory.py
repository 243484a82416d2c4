"""Steps of an agent as a judge sees them; long ones are shortened by a fixed rule.

A text of more than 4,000 characters keeps its first 3,000 and its last 1,000. If all steps together still have more
than 100,000 characters, the limit of a text is halved, down to 500; if that is not enough, steps in the middle are left
out. An entry tells the judge what was left out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gradebook.rubrics.model.steps import Step
from gradebook.rubrics.prompts.prompt_text import shown_json

MOST_TEXT = 4_000  # characters of one text
LEAST_TEXT = 500
MOST_NAME = 200  # characters of a name
MOST_NESTED = 200  # brackets of JSON that is shown as JSON, not as text
MOST_TRAJECTORY = 100_000  # characters of all steps


class Trajectory(NamedTuple):
    """Steps as a judge sees them, and the count of omitted characters. answer_index: number of the answer's step."""

    shown: tuple[Mapping[str, Any], ...]
    left_out: int = 0
    answer_index: int | None = None

    @property
    def texts(self) -> str:
        """All texts of the steps, as the judge sees them."""
        values = (value for step in self.shown for name, value in step.items() if name not in ("step", "kind"))
        return "\n".join(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values)


def trajectory_of(steps: Sequence[Step] | None, output: str) -> Trajectory | None:
    """Steps of an output for a judge; None without steps."""
    return None if steps is None else shown_steps(steps, output)


def shown_steps(steps: Sequence[Step], output: str) -> Trajectory:
    """Steps for a judge, without the last step if it is the answer. output: the answer."""
    answer_index = None
    if steps and steps[-1].kind == "model" and steps[-1].output == output and steps[-1].error is None:
        steps, answer_index = steps[:-1], len(steps) - 1
    total_length = sum(map(_length, steps))
    most = MOST_TEXT
    entries = [_shown(number, step, most) for number, step in enumerate(steps)]
    while sum(map(_shown_length, entries)) > MOST_TRAJECTORY and most > LEAST_TEXT:
        most //= 2
        entries = [_shown(number, step, most) for number, step in enumerate(steps)]
    kept_entries = _without_middle(entries)
    left_out = max(total_length - sum(_length(steps[step["step"]]) for step in kept_entries if "step" in step), 0)
    left_out += sum(_cut_characters(steps[step["step"]], most) for step in kept_entries if "step" in step)
    return Trajectory(tuple(kept_entries), left_out, answer_index)


def _texts(step: Step) -> Iterable[str]:
    return (text for text in (step.input, step.output, step.error) if text)


def _length(step: Step) -> int:
    return sum(map(len, _texts(step)))


def _cut_characters(step: Step, most: int) -> int:
    return sum(max(len(text) - most, 0) for text in _texts(step))


def _shown(number: int, step: Step, most: int) -> dict[str, Any]:
    fields = {
        "step": number,
        "kind": step.kind,
        "name": _cut_name(step.name),
        "agent": _cut_name(step.agent),
        "input": _value(step.input, most),
        "output": _value(step.output, most),
        "error": _value(step.error, most),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _value(text: str | None, most: int) -> Any:
    """Shortened text of a step; a JSON object or list as a value, so that its quotes are not escaped again.

    JSON with repeated keys or long numbers stays text, as parsing would change it.
    """
    if text is None or len(text) > most:
        return text if text is None else _cut(text, most)
    if text[:1] not in ("{", "[") or text.count("[") + text.count("{") > MOST_NESTED:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    forms = (json.dumps(value, ensure_ascii=is_ascii) for is_ascii in (False, True))
    is_same = text in forms or text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if is_same else text


def _cut(text: str, most: int) -> str:
    tail = most // 4
    return f"{text[: most - tail]}[... {len(text) - most:,} characters left out ...]{text[-tail:]}"


def _cut_name(name: str | None) -> str | None:
    return name if name is None or len(name) <= MOST_NAME else _cut(name, MOST_NAME)


def _shown_length(step: Mapping[str, Any]) -> int:
    return len(shown_json(step))


def _without_middle(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps from both ends, as many as fit, with an entry for the omitted steps between."""
    lengths = list(map(_shown_length, entries))
    if sum(lengths) <= MOST_TRAJECTORY:
        return entries
    first, last, size = 0, len(entries), 0
    while first < last:
        index = first if first <= len(entries) - last else last - 1
        size += lengths[index]
        if size > MOST_TRAJECTORY:
            break
        first, last = (first + 1, last) if index == first else (first, last - 1)
    return [*entries[:first], {"left_out": f"steps {first} to {last - 1}"}, *entries[last:]]
