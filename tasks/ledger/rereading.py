"""Raw replies read again and compared with the ledger."""

import math
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case, PromptStyle
from gradebook.rubrics.prompts.reply_parser import ReadReply, only_object
from gradebook.tasks.judging.replies.judgment_row import distribution_text
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.replies.recorded_judge import RecordedReply, read_recorded
from gradebook.tasks.judging.settings.judge import identity_digest

# The finish reason of a reply is not in the ledger, and its text does not show it.
ENDINGS = frozenset({"refused", "truncated", "filtered"})

# Earlier versions read fewer forms of JSON, and compared quotation marks and dashes of quotes letter by letter.
READ_LATER = frozenset({"parse_error", "evidence_unverified"})

_OTHER_ORDER = {"worst_first": "best_first", "best_first": "worst_first"}

Row = dict[str, Any]
Differences = dict[str, tuple[str | None, str | None]]  # column -> (value in the ledger, value from the reply)


@dataclass(frozen=True, slots=True)
class AskedJudge:
    """Judge as recorded by a run. style: of its prompts, see `style_of`."""

    identity: Row
    digest: str
    style: PromptStyle | None

    @property
    def is_partly_stored(self) -> bool:
        """Whether its replies cannot be read again in full, as token probabilities are not stored."""
        return self.style is not None and self.style.reply == "logprobs"


def asked_judges(identity: Row) -> tuple[AskedJudge, ...]:
    """Judges that a run may have asked, by the identity of its judge: members of a panel or cascade, in both orders of
    levels.
    """
    plain = [_plain(member) for member in identity.get("members", [identity])]
    return tuple(AskedJudge(each, identity_digest(each), style_of(each)) for one in plain for each in _both_orders(one))


def _plain(identity: Row) -> Row:
    """Identity without the settings for the number of votes."""
    return {name: value for name, value in identity.items() if name != "opinions"}


def _both_orders(identity: Row) -> list[Row]:
    other = _OTHER_ORDER.get(identity.get("level_order", ""))
    return [identity, identity | {"level_order": other}] if other else [identity]


def style_of(identity: Row) -> PromptStyle | None:
    """Style of an online judge's prompts; None for recorded replies, or an identity of another version."""
    try:
        orders = identity["reply_order"], identity["level_order"]
        return PromptStyle(identity["reply"], *orders, bool(identity.get("flaws_first")))
    except KeyError:
        return None


def misread(
    judgment: Row, criterion: Criterion, case: Case, identity: Row, style: PromptStyle | None
) -> Differences | None:
    """Differences of status, level and distribution from the raw reply; None if it cannot be read again.

    A reply cannot be read again if its finish reason decided the status, or its prompt is not today's. judgment: row of
    the ledger; identity: its judge's.
    """
    if judgment["status"] in ENDINGS:
        return _differences(judgment, {"level_id": None, "distribution": None})
    if identity.get("kind") == "replay":
        read = _reread_recorded(judgment, case.quotable)
    elif style is None or identity.get("kind") != "openai_chat":
        return None
    elif style.reply == "logprobs":  # only the probabilities of the levels are stored
        return _differences(judgment, _fitting(judgment, criterion))
    else:
        read = _reread(judgment, criterion, case, style, is_plain="reply_format" in identity)
        if read is not None and read.status == "scored" and judgment["status"] in READ_LATER:
            return None
    if read is None:
        return None
    level_id = read.level_id if read.status == "scored" else None
    distribution = distribution_text(read) if read.status == "scored" else None
    return _differences(judgment, {"status": read.status, "level_id": level_id, "distribution": distribution})


def _reread(judgment: Row, criterion: Criterion, case: Case, style: PromptStyle, *, is_plain: bool) -> ReadReply | None:
    key, output_id = judgment["request_key"], judgment["output_id"]
    question = Question(output_id, criterion, case, key, judgment["replicate"], style=style)
    if question.prompt_digest != judgment["prompt_digest"]:
        return None
    text = judgment["reply"]
    return question.request().read(only_object(text, style.reply_keys) if is_plain and text else text, None, None, None)


def _reread_recorded(judgment: Row, output: str) -> ReadReply | None:
    try:
        return read_recorded(RecordedReply.model_validate_json(judgment["reply"] or ""), output)
    except (ValidationError, ValueError):
        return None


def _fitting(judgment: Row, criterion: Criterion) -> dict[str, str | None]:
    """Level implied by a distribution: the most probable, and the worse of equal ones."""
    if judgment["status"] != "scored":
        return {"level_id": None, "distribution": None}
    shares = _shares(judgment["distribution"])
    level_ids = [level.id for level in criterion.ranked_levels]
    if shares is None or not shares.keys() <= set(level_ids):
        return {"distribution": f"probabilities of {', '.join(level_ids)} that add up to 1"}
    return {"level_id": max(level_ids, key=lambda level_id: shares.get(level_id, 0.0))}


def _shares(text: str | None) -> dict[str, float] | None:
    """Probabilities by level; None unless the text has some that add up to 1."""
    try:
        shares = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(shares, dict) or not all(
        isinstance(share, float | int) and share >= 0 for share in shares.values()
    ):
        return None
    return shares if math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-6) else None


def _differences(judgment: Row, expected: dict[str, str | None]) -> Differences:
    return {name: (judgment[name], value) for name, value in expected.items() if judgment[name] != value}
