"""Questions about the claims of an output, in two stages: which claims it makes, and whether a source supports them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.prompts.claims import (
    CLAIMS_AT_ONCE,
    EXTRACT_SCHEMA,
    EXTRACT_VERSION,
    VERIFY_SCHEMA,
    VERIFY_VERSION,
    WINDOW,
    Claim,
    Window,
    claims_key,
    claims_prompt_digest,
    read_extraction,
    read_verification,
    render_extraction,
    render_verification,
    windows_of,
)
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.judging.replies.list_question import ListQuestion, Messages, Reader

MOST_SENTENCES = 600  # of a text: 30 windows
MOST_CLAIM_TOKENS = 90  # of a reply, for each claim: its words twice, or a quote
EXTRACT_TOKENS = WINDOW * 2 * MOST_CLAIM_TOKENS
VERIFY_TOKENS = 256 + CLAIMS_AT_ONCE * MOST_CLAIM_TOKENS * 2
Side = Literal["output", "reference"]


@dataclass(frozen=True, slots=True)
class ClaimUnit:
    """Text of an output whose claims are checked against a source. reason: why nothing can be asked."""

    output_id: str
    side: Side
    text: str
    source: tuple[str, ...]
    windows: tuple[Window, ...] = ()
    reason: str | None = None


def _question(  # noqa: PLR0913 - a field each
    output_id: str,
    criterion_id: str,
    judge_digest: str,
    version: str,
    render: Callable[[], Messages],
    schema: dict[str, Any],
    max_tokens: int,
    reader: Reader,
) -> ListQuestion:
    """A question with its key. judge_digest: of the judge that is asked."""
    key = claims_key(judge_digest, version, render())
    digest = claims_prompt_digest(version)
    return ListQuestion(output_id, criterion_id, key, version, digest, render, schema, max_tokens, reader)


def claim_units(method: ClaimsMethod, output_id: str, case: Case) -> tuple[ClaimUnit, ...]:
    """Texts of a case whose claims the method checks: the output's, the reference's, or both."""
    source = case.passages(method.against)
    if not source:
        return (
            ClaimUnit(output_id, "output", case.output, (), reason=f"no_{method.against}: nothing to check against"),
        )
    units = []
    if method.measure != "recall":
        units.append(_unit(output_id, "output", case.output, source))
    if method.measure in ("recall", "f1"):
        units.append(_unit(output_id, "reference", source[0], (case.output,)))
    return tuple(units)


def _unit(output_id: str, side: Side, text: str, source: tuple[str, ...]) -> ClaimUnit:
    windows = windows_of(text)
    count = sum(len(each.sentences) for each in windows)
    if count > MOST_SENTENCES:
        reason = f"too_many_sentences: found {count:,}, at most {MOST_SENTENCES} are checked"
        return ClaimUnit(output_id, side, text, source, reason=reason)
    return ClaimUnit(output_id, side, text, source, windows)


def extraction_questions(unit: ClaimUnit, criterion_id: str, judge_digest: str) -> Iterator[ListQuestion]:
    """One question for each window of a text."""
    for window in unit.windows:
        yield _question(
            unit.output_id,
            criterion_id,
            judge_digest,
            EXTRACT_VERSION,
            partial(render_extraction, window),
            EXTRACT_SCHEMA,
            EXTRACT_TOKENS,
            partial(read_extraction, window=window),
        )


def verification_questions(
    unit: ClaimUnit, claims: Sequence[Claim], criterion_id: str, judge_digest: str
) -> Iterator[ListQuestion]:
    """One question for each four claims, in order. claims: the verifiable ones."""
    for first in range(0, len(claims), CLAIMS_AT_ONCE):
        texts = [claim.text for claim in claims[first : first + CLAIMS_AT_ONCE]]
        yield _question(
            unit.output_id,
            criterion_id,
            judge_digest,
            VERIFY_VERSION,
            partial(render_verification, unit.source, texts),
            VERIFY_SCHEMA,
            VERIFY_TOKENS,
            partial(read_verification, source=unit.source, claim_count=len(texts)),
        )
