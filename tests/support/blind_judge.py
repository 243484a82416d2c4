"""Judge with a known fault on 127.0.0.1, and rated outputs: it misses one failure until guidance names it.

Outputs are replies to customers. People pass those that are kind and name a date. The judge reads kindness alone, errs
on some outputs, and heeds the date where its guidance says so. Asked for guidance, it proposes what a test scripts.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.loopback_judge import LoopbackJudge, level_reply

CRITERION = """
  - id: {name}
    description: {question}
    levels:
      - {{id: bad, score: 0, description: It does not help.}}
      - {{id: good, score: 1, description: It helps.}}
    method: {{type: judge}}
"""
HEAD = "id: reply\nversion: 1.0.0\ncriteria:"
RUBRIC = HEAD + CRITERION.format(name="useful", question="Does the reply help the customer?")
GOOD = {"guidance": "A reply without a day on which something happens does not help.", "levels": [], "reason": "Days."}
IDLE = {"guidance": "Judge the reply as a whole, as a customer would.", "levels": [], "reason": "Whole."}
GREETINGS = ("Thank you for writing to us", "Dear customer, we are sorry", "Whatever", "Read the manual")
DAYS = ("the parcel comes on Monday", "the money is back by Friday", "we will see", "it takes a while")


def is_heeding(guidance: str) -> bool:
    """Whether guidance makes the judge look for a day."""
    return " day " in guidance


class BlindJudge(LoopbackJudge):
    """The judge. proposals: of each question for guidance. noise: share of outputs on which it errs, by their text."""

    def __init__(self, proposals: Sequence[dict[str, Any]] = (GOOD, IDLE), noise: float = 0.08) -> None:
        super().__init__()
        self.proposals, self.noise = [*proposals], noise
        self.proposal_count = 0
        self.writer = self._write

    def _write(self, body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        if body["response_format"]["json_schema"]["name"] == "guidance":
            self.proposal_count += 1
            return json.dumps({"candidates": self.proposals})
        case, criterion = (json.loads(content.splitlines()[line]) for line in (1, 4))
        is_good = is_kind(case["output"])
        if is_heeding(criterion.get("guidance", "")):
            is_good &= has_day(case["output"])
        if draw(case["output"], "judge") < self.noise:
            is_good = not is_good
        return level_reply(body, "It helps." if is_good else "It does not help.")


def draw(text: str, salt: str) -> float:
    """Number in 0..1, drawn from a text."""
    return int.from_bytes(hashlib.sha256(f"{salt}{text}".encode()).digest()[:4], "big") / 2**32


def is_kind(text: str) -> bool:
    return text.startswith(GREETINGS[:2])


def has_day(text: str) -> bool:
    return any(day in text for day in DAYS[:2])


def outputs(case_count: int) -> list[dict[str, Any]]:
    """Two models' replies to each case; half are kind, and half of these name a day."""
    rows = []
    for case in range(case_count):
        for model in ("a", "b"):
            name = f"{case}{model}"
            greeting = GREETINGS[(draw(name, "greet") > 0.75) * 2 + (draw(name, "which") > 0.5)]
            day = DAYS[(draw(name, "day") > 0.6) * 2 + (draw(name, "what") > 0.5)]
            text = f"{greeting}: {day}, order {case} of {model}."
            rows.append({"case_id": f"c{case:03}", "model": model, "prompt": f"Where is order {case}?", "output": text})
    return rows


def is_useful(row: dict[str, Any], rater: str, noise: float) -> bool:
    """Whether a rater calls a reply useful, with errors on a share of them."""
    is_good = is_kind(row["output"]) and has_day(row["output"])
    return not is_good if draw(row["output"], rater) < noise else is_good


def ratings(
    rows: Sequence[dict[str, Any]], raters: Sequence[str] = ("lea",), noise: float = 0.04
) -> list[dict[str, Any]]:
    """Ratings of outputs; each rater errs on a share of them, and says why where no day is named."""
    found = []
    for row in rows:
        for rater in raters:
            is_good = is_useful(row, rater, noise)
            note = {} if is_good or has_day(row["output"]) else {"notes": "It says nothing about when."}
            of_output = {"case_id": row["case_id"], "model": row["model"], "criterion": "useful", "rater": rater}
            found.append(of_output | {"level": "good" if is_good else "bad"} | note)
    return found


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
