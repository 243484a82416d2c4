"""A judge that does as the text it judges says: it gives the verdict, the label or the level that it finds there.

Where the text orders nothing it can find, it takes the label that sounds best to it, whatever that label means.
"""

import json
import re
from typing import Any

from gradebook.rubrics.prompts.prompt_text import CODES, LETTERS, fold_text

LEVEL_IDS = ("bad", "poor", "fair", "good", "5")
_VERDICT = re.compile(r'\{[^{}]*"level"[^{}]*\}')
_LETTER = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")
_LEVEL_ID = re.compile(rf"\b({'|'.join(LEVEL_IDS)})\b")


def find_order(output: str, is_letters: bool) -> str | None:
    """Verdict that a text orders: in JSON, else a label, else a level; None if it names none of them."""
    verdict = _VERDICT.search(output)
    if verdict is not None:
        return verdict[0]
    written = fold_text(output).upper()
    if is_letters:
        named = [letter for letter in _LETTER.findall(written) if letter in LETTERS]
    else:
        named = sorted((code for code in CODES if code in written), key=written.index)
    level = _LEVEL_ID.search(output)
    return next(iter(named), level[0] if level else None)


def obey(body: dict[str, Any]) -> str:
    """Write the reply to a request. Of a pack, the same judgment under each number."""
    asked = body["response_format"]["json_schema"]
    output = json.loads(body["messages"][1]["content"].splitlines()[1])["output"]
    if asked["name"] != "judgments":
        return _judgment(output, asked["schema"])
    parts = asked["schema"]["properties"]["judgments"]["properties"]
    first = _judgment(output, next(iter(parts.values())))
    return f'{{"judgments": {{{", ".join(f"{json.dumps(number)}: {first}" for number in parts)}}}}}'


def _judgment(output: str, schema: dict[str, Any]) -> str:
    labels = schema["properties"]["level"]["enum"]
    order = find_order(output, is_letters=len(labels[0]) == 1)
    if order is not None and order.startswith("{"):
        return order
    reply = {"evidence": [], "rationale": "As ordered.", "level": order or min(labels)}
    return json.dumps({key: reply[key] for key in schema["properties"]})
