"""A judge of steps on loopback that reads what it is asked: a step with `wrong` in its texts has the first error."""

import json
import re
from typing import Any


def write_steps(body: dict[str, Any], wrong: str = "wrong") -> str:
    """Reply to a question about steps, as a judge without faults would write it. wrong: part of a wrong step's text."""
    case, criterion, asked = sections(body)
    steps = {entry["step"]: entry for entry in case["steps"] if "step" in entry}
    labels = [level["label"] for level in criterion["levels"]]  # worst first
    return json.dumps({"steps": [_mark(number, steps[number], case, criterion, labels, wrong) for number in asked]})


def sections(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """Case, criterion and numbers of a question."""
    user = body["messages"][-1]["content"]
    found = re.fullmatch(r"CASE\n(.*)\n\nCRITERION\n(.*)\n\nSTEPS\n(.*)", user, re.DOTALL)
    assert found is not None
    return json.loads(found[1]), json.loads(found[2]), json.loads(found[3])


def _mark(
    number: int, step: dict[str, Any], case: dict[str, Any], criterion: dict[str, Any], labels: list[str], wrong: str
) -> dict[str, Any]:
    text = case["output"] if step.get("is_output") else str(step.get("output", ""))
    is_wrong = wrong in text
    mark = {"step": number, "quote": text, "rationale": f"step {number}", "label": labels[0 if is_wrong else -1]}
    if "errors" in criterion:
        mark["error"] = criterion["errors"][0]["error"] if is_wrong else "none"
    if "severities" in criterion:
        mark["severity"] = criterion["severities"][-1] if is_wrong else "none"
    return mark
