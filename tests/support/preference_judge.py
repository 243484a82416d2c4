"""A judge on loopback that prefers the answer with more stars, and the first one where a question mark is in both."""

import json
from typing import Any


def write_preference(body: dict[str, Any]) -> str:
    """Reply to a question which of two answers is better."""
    case_text, _, criterion_text = body["messages"][-1]["content"].removeprefix("CASE\n").partition("\n\nCRITERION\n")
    case, criterion = json.loads(case_text), json.loads(criterion_text)
    first, second = (case[place].count("*") for place in ("first", "second"))
    is_biased = "?" in case["first"] and "?" in case["second"]
    wanted = "`first`" if is_biased or first > second else "`second`" if second > first else "neither"
    label = next(each["label"] for each in criterion["levels"] if wanted in each["meaning"])
    quoted = [case[place][:1] for place in ("first", "second")]
    return json.dumps({"evidence": quoted, "rationale": f"{first} and {second} stars", "level": label})
