"""A scripted model that drafts a rubric of product texts, with good and bad proposals, and judges by them.

python tests/support/drafting_model.py OUTPUTS.jsonl   # writes 60 outputs, serves, and prints the address
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.loopback_judge import LoopbackJudge, texts_of

PRAISE, PLACEHOLDER = "ultimate", "[PRODUCT]"
NOISE, SHORT = "Is the tone right for a catalogue?", "Is the text long enough to decide by?"
SIZE, MOOD = "Does the text state a measure with its unit?", "Does each sentence inform without advertising?"


def rows(count: int = 60, signal: str | None = "thumbs") -> list[dict[str, Any]]:
    """Texts: every fourth praises, every fourth lacks its size, one in 20 has a placeholder, the others are good."""
    made = []
    for number in range(count):
        text = f"A kettle of steel, number {number}, for {number % 7 + 1} l, that switches off when it is dry."
        if number % 4 == 0:
            text = f"The {PRAISE} kettle, number {number}, for {number % 7 + 1} l. It brightens every morning."
        if number % 4 == 1:
            text = f"A kettle of steel, number {number}, that switches off when it is dry."
        if number % 20 == 8:
            text += f" Buy {PLACEHOLDER} today."
        said = {signal: "down" if number % 4 < 2 else "up"} if signal else {}
        made.append(
            {"case_id": f"c{number:02}", "model": "shop-7b", "prompt": f"Text {number}?", "output": text} | said
        )
    return made


def _mode(name: str, texts: dict[str, str], word: str, quote: str | None = None) -> dict[str, Any]:
    cited = [key for key, text in texts.items() if word in text]
    return {
        "name": name,
        "description": f"The text shows {name}.",
        "citations": [{"output": key, "quote": quote or word} for key in cited],
    }


def _criterion(question: str, modes: list[str], check: str = "", settings: Any = "", **more: Any) -> dict[str, Any]:
    levels = [("The question is answered with no by a passage.", 0.0), ("No passage answers it with no.", 1.0)]
    return {
        "question": question,
        "modes": modes,
        "must_never": False,
        "method": "check" if check else "judge",
        "check": check,
        "settings": json.dumps(settings) if settings != "" else "",
        "levels": [] if check else [{"description": text, "score": score} for text, score in levels],
    } | more


class DraftingModel(LoopbackJudge):
    """The model; `proposed` may add criteria, and `fails` decides what it marks as bad."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = self.write
        self.asked: Counter[str] = Counter()  # requests by the name of the reply's schema
        self.more_criteria: list[dict[str, Any]] = []
        self.case_criteria: list[dict[str, Any]] = []  # of every case
        self._seen: Counter[str] = Counter()

    def write(self, body: dict[str, Any]) -> str:
        name = body["response_format"]["json_schema"]["name"]
        self.asked[name] += 1
        material = body["messages"][-1]["content"].partition("MATERIAL\n")[2]
        if name == "mark":
            text = json.loads(material)["output"]
            return json.dumps({"why": "So.", "fails": PRAISE in text or " l" not in text})
        if name == "failure_modes":
            return json.dumps({"modes": self._modes(json.loads(material))})
        if name == "case_criteria":
            return json.dumps({"criteria": self.case_criteria})
        if name == "criteria":
            return json.dumps({"criteria": self._criteria(json.loads(material)) + self.more_criteria})
        return self._judge(body)

    def _modes(self, material: dict[str, Any]) -> list[dict[str, Any]]:
        texts = {example["id"]: example["output"] for example in material["bad"]}
        return [
            _mode("empty praise", texts, PRAISE),
            _mode(
                "missing size", {key: text for key, text in texts.items() if PRAISE not in text}, "A kettle of steel"
            ),
            _mode("placeholder left", texts, PLACEHOLDER),
            _mode("false citation", texts, "kettle", "words that nobody wrote"),
        ]

    def _criteria(self, material: dict[str, Any]) -> list[dict[str, Any]]:
        by_name: dict[str, list[str]] = {}
        for mode in material["modes"]:
            by_name.setdefault(mode["name"], []).append(mode["id"])
        praise, size = by_name["empty praise"], by_name["missing size"]
        left = by_name.get("placeholder left", [])
        return [
            _criterion("Is the text free of words of praise?", praise, "not_contains", {"any": [PRAISE]}),
            _criterion(SIZE, size),
            _criterion("Is the text free of any words of praise?", praise),
            _criterion("Is it helpful?", []),
            _criterion("Is it better than the texts of shop-7b?", praise),
            _criterion("Are there twelve words or more?", size, "length_words", {"least": 12}),
            _criterion(SHORT, size, "length_words", {"min": 1}),
            _criterion(NOISE, praise),
            _criterion(MOOD, praise),
            _criterion("Is no placeholder left?", left, "not_contains", {"any": [PLACEHOLDER]}, must_never=True),
        ]

    def _judge(self, body: dict[str, Any]) -> str:
        prompt = texts_of(body)
        self._seen[prompt] += 1
        asked = json.loads(body["messages"][-1]["content"].rpartition("CRITERION\n")[2])
        is_met = True
        if asked["question"] == SIZE:
            is_met = " l," in prompt or " l." in prompt
        if asked["question"] == MOOD:
            is_met = PRAISE not in prompt
        if asked["question"] == NOISE:
            is_met = self._seen[prompt] % 2 == 1
        level = asked["levels"][-1 if is_met else 0]["label"]
        reply = {"evidence": [], "rationale": "So.", "level": level}
        return json.dumps({key: reply[key] for key in body["response_format"]["json_schema"]["schema"]["properties"]})


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    with DraftingModel() as model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)
