"""What a judge is shown, and the keys under which its reply is kept.

The order is instructions, case and output, criterion: the longest shared part comes first, so that endpoints which
cache prefixes read it once for all criteria. What is judged enters JSON-encoded, so it can close no delimiter, and
levels go by labels that nobody could name beforehand.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rubrics.levels import Level
from rubrics.model import Criterion

JUDGE_PROMPT_VERSION = "judge_v1"
_PROMPT_PATH = Path(__file__).parent / "prompts" / f"{JUDGE_PROMPT_VERSION}.txt"
_USER_MARK = "=== user ===\n"
_CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
_LABEL_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Case:
    """What was asked and what came out, as the judge sees it."""

    prompt: str | None
    output: str
    reference: str | None = None
    context: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Template:
    """The prompt file, cut at its slots once, so that filling one can't reach into another."""

    system: str
    before_case: str
    before_criterion: str
    after: str


@lru_cache(maxsize=1)
def _template() -> _Template:
    system, _, user = _PROMPT_PATH.read_text("utf-8").partition(_USER_MARK)
    before_case, _, rest = user.partition("{case}")
    before_criterion, _, after = rest.partition("{criterion}")
    return _Template(system.strip(), before_case, before_criterion, after.rstrip())


@lru_cache(maxsize=1)
def prompt_digest() -> str:
    """Hash of the prompt file, 32 hex digits."""
    return hashlib.blake2b(_PROMPT_PATH.read_bytes(), digest_size=16).hexdigest()


def label_of(criterion: Criterion, request_key: str, avoid: str = "") -> dict[str, str]:
    """Draw an opaque label for each level, worst level first: label -> level id.

    The same key gives the same labels. A label that occurs in `avoid` (the output) is never drawn, so a text can't
    name one even by chance.
    """
    folded = avoid.upper()
    labels: dict[str, str] = {}
    for number, level in enumerate(criterion.ranked_levels):
        labels[_draw_label(f"{request_key}/{number}", labels, folded)] = level.id
    return labels


def _draw_label(seed: str, taken: Collection[str], avoid: str) -> str:
    for turn in range(1_000):  # a text that holds every label drawn is no text to give way to
        drawn = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=_LABEL_LENGTH).digest()
        label = "".join(_CONSONANTS[byte % len(_CONSONANTS)] for byte in drawn)
        if label not in taken and (label not in avoid or turn > 100):
            break
    return label


def render_messages(case: Case, criterion: Criterion, request_key: str) -> list[dict[str, str]]:
    """Write the messages of one question to a judge: instructions, case and output, then the criterion."""
    template = _template()
    labels = label_of(criterion, request_key, case.output)
    user = (
        template.before_case,
        _case_json(case),
        template.before_criterion,
        _criterion_json(criterion, labels),
        template.after,
    )
    return [{"role": "system", "content": template.system}, {"role": "user", "content": "".join(user)}]


def _case_json(case: Case) -> str:
    shown: dict[str, Any] = {
        "prompt": case.prompt,
        "context": list(case.context) or None,
        "reference": case.reference,
        "output": case.output,
    }
    return json.dumps({name: text for name, text in shown.items() if text is not None}, ensure_ascii=False)


def _criterion_json(criterion: Criterion, labels: dict[str, str]) -> str:
    levels = [{"label": label} | _meaning(level) for label, level in zip(labels, criterion.ranked_levels, strict=True)]
    return json.dumps({"question": criterion.description, "levels": levels}, ensure_ascii=False)


def _meaning(level: Level) -> dict[str, Any]:
    """What a level is like. Its id is shown only where nothing else says it: "give 5" must name nothing."""
    name = level.label if level.label and not level.label.strip().isdigit() else None
    words = ": ".join(text for text in (name, level.description) if text) or level.label or level.id
    return {"meaning": words} | ({"indicators": list(level.indicators)} if level.indicators else {})


def reply_schema(labels: Collection[str]) -> dict[str, Any]:
    """The strict JSON schema of a reply: evidence, then rationale, then the label of a level."""
    return {
        "name": "judgment",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "evidence": {"type": "array", "items": {"type": "string"}},
                "rationale": {"type": "string"},
                "level": {"type": "string", "enum": list(labels)},
            },
            "required": ["evidence", "rationale", "level"],
            "additionalProperties": False,
        },
    }


def criterion_digest(criterion: Criterion) -> str:
    """Hash what bears on the reply: description, levels in the order shown, and the method's own token limit.

    Weight, threshold, category, gate, name and the levels' scores (but for the order they give) are not in it: changing
    them asks nothing again. 32 hex digits.
    """
    levels = [[level.id, level.label, level.description, list(level.indicators)] for level in criterion.ranked_levels]
    max_tokens = getattr(criterion.method, "max_tokens", None)
    shown = json.dumps([criterion.description, levels, max_tokens], ensure_ascii=False)
    return hashlib.blake2b(shown.encode(), digest_size=16).hexdigest()


def case_digest(case: Case) -> str:
    """Hash of the case and its output as they are shown, 32 hex digits."""
    texts = (case.prompt, case.output, case.reference, *case.context)
    shown = "|".join("-" if text is None else f"{len(text)}:{text}" for text in texts)  # lengths keep fields apart
    return hashlib.blake2b(shown.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def request_key(judge_digest: str, criterion_digest: str, case_digest: str, replicate: int = 0) -> str:
    """The name under which one reply is paid for once, 32 hex digits."""
    return hashlib.blake2b(
        f"{judge_digest}|{criterion_digest}|{case_digest}|{replicate}".encode(), digest_size=16
    ).hexdigest()
