"""Questions about the claims of an output, in two stages: which claims it makes, and whether a source supports them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from gradebook.rubrics.checks.grounding.citations import cited_sentences
from gradebook.rubrics.model.methods import CITATION_MEASURES, ClaimsMethod
from gradebook.rubrics.prompts.claims import (
    CLAIMS_AT_ONCE,
    EXTRACT_SCHEMA,
    EXTRACT_VERSION,
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
    sentence_claims,
    verify_schema,
    windows_of,
)
from gradebook.rubrics.prompts.prompt import Case
from gradebook.rubrics.prompts.untrusted_text import fold_text
from gradebook.tasks.judging.replies.list_question import ListQuestion, Messages, Reader

MOST_CITATIONS = 5  # of a sentence whose precision is measured
MOST_SENTENCES = 600  # of a text: 30 windows
MOST_CLAIM_TOKENS = 90  # of a reply, for each claim: its words twice, or a quote
EXTRACT_TOKENS = WINDOW * 2 * MOST_CLAIM_TOKENS
VERIFY_TOKENS = 256 + CLAIMS_AT_ONCE * MOST_CLAIM_TOKENS * 2
Each = TypeVar("Each")
Side = Literal["output", "reference", "citation"]  # citation: a sentence of the output, with a part of its sources


@dataclass(frozen=True, slots=True)
class ClaimUnit:
    """Text of an output whose claims are checked against a source. reason: why nothing can be asked.

    claims: of a sentence that needs no extraction; cited: the passages of its source, by their positions.
    """

    output_id: str
    side: Side
    text: str
    source: tuple[str, ...]
    windows: tuple[Window, ...] = ()
    reason: str | None = None
    claims: tuple[Claim, ...] | None = None
    cited: tuple[int, ...] = ()

    @property
    def is_uncited(self) -> bool:
        """Whether it is a sentence that cites no passage of the context."""
        return self.claims is not None and not self.source


def _question(  # noqa: PLR0913 - a field each
    output_id: str,
    criterion_id: str,
    judge_digest: str,
    version: str,
    render: Callable[[], Messages],
    schema: dict[str, Any],
    max_tokens: int,
    reader: Reader,
    replicate: int = 0,
) -> ListQuestion:
    """A question with its key. judge_digest: of the judge that is asked."""
    key = claims_key(judge_digest, version, render(), replicate)
    digest = claims_prompt_digest(version)
    return ListQuestion(output_id, criterion_id, key, version, digest, render, schema, max_tokens, reader, replicate)


def claim_units(method: ClaimsMethod, output_id: str, case: Case) -> tuple[ClaimUnit, ...]:
    """Texts of a case whose claims the method checks: the output's, the reference's, or both."""
    source = tuple(passage for passage in case.passages(method.against) if fold_text(passage))
    if not source:
        return (
            ClaimUnit(output_id, "output", case.output, (), reason=f"no_{method.against}: nothing to check against"),
        )
    if method.of == "reference":
        (reference,) = case.passages("reference") or ("",)
        reason = None if reference else "no_reference: nothing to check"
        unit = _unit(output_id, "reference", reference, source)
        return (unit if reason is None else replace(unit, reason=reason),)
    if method.measure in CITATION_MEASURES:
        return tuple(_citation_units(method, output_id, case))
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


def _citation_units(method: ClaimsMethod, output_id: str, case: Case) -> Iterator[ClaimUnit]:
    """Each sentence with the passages that it cites; for the precision of several, with each alone and without each."""
    sentences = cited_sentences(case.output)
    if len(sentences) > MOST_SENTENCES:
        reason = f"too_many_sentences: found {len(sentences):,}, at most {MOST_SENTENCES} are checked"
        yield ClaimUnit(output_id, "output", case.output, (), reason=reason)
        return
    for number, sentence in enumerate(sentences):
        claim = Claim(number, sentence.start, sentence.stop, sentence.text, sentence.text, "verifiable")
        wanted = [sentence.cited]
        if method.measure == "citation_precision":
            wanted += citation_parts(sentence.cited)
        for cited in dict.fromkeys(wanted):
            source = tuple(case.context[position - 1] for position in cited if 0 < position <= len(case.context))
            side: Side = "output" if cited == sentence.cited else "citation"
            yield ClaimUnit(output_id, side, case.output, source, claims=(claim,), cited=cited)


def citation_parts(cited: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Each citation alone, and the others without it; the first five of a sentence count."""
    first = cited[:MOST_CITATIONS] if len(cited) > 1 else ()
    others = [tuple(each for each in cited if each != one) for one in first]
    return [*((one,) for one in first), *others]


def known_claims(method: ClaimsMethod, unit: ClaimUnit) -> tuple[Claim, ...] | None:
    """Claims of a unit that need no extraction; None if the judge has to find them."""
    if unit.claims is not None:
        return unit.claims if unit.source else ()
    return sentence_claims(unit.text) if method.precision == "sentence" else None


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


def claim_packs(claims: Sequence[Each]) -> tuple[Sequence[Each], ...]:
    """Claims of a unit as they are verified: four at a time, in order. claims: the verifiable ones."""
    return tuple(claims[first : first + CLAIMS_AT_ONCE] for first in range(0, len(claims), CLAIMS_AT_ONCE))


def verification_question(
    unit: ClaimUnit,
    pack: Sequence[Claim],
    criterion_id: str,
    judge_digest: str,
    replicate: int = 0,
    *,
    can_abstain: bool = False,
) -> ListQuestion:
    """Question that verifies a pack of claims. judge_digest: of the judge that is asked."""
    texts = [claim.text for claim in pack]
    return _question(
        unit.output_id,
        criterion_id,
        judge_digest,
        VERIFY_VERSION,
        partial(render_verification, unit.source, texts, can_abstain=can_abstain),
        verify_schema(can_abstain=can_abstain),
        VERIFY_TOKENS,
        partial(read_verification, source=unit.source, claim_count=len(texts), can_abstain=can_abstain),
        replicate,
    )
