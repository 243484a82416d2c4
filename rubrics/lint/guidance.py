"""Faults of proposed guidance: phrases of its cases, names of models, excessive length, orders to the judge."""

import re
from collections.abc import Collection, Iterable, Iterator

from gradebook.rubrics.lint.texts import QUOTED, words_of
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.guidance import LONGEST_GUIDANCE, Proposal
from gradebook.rubrics.prompts.prompt_text import inert_text

LONGEST_SHARED = 5  # words in a row that guidance may share with a case
LEAST_QUOTED = 3  # words of a quotation that may not be in a case
_LENGTH = re.compile(
    r"\b(?:\d+|one|two|three|four|five|ten|twenty|fifty|hundred)\s+(?:words?|characters?|tokens?|sentences?|lines?|"
    r"paragraphs?)\b|\b(?:long|short)(?:er|est)\b|\blength\b|\bword ?count\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.]{0,60}\b(?:instructions?|rules?|question|above|previous|prior)\b|"
    r"\b(?:always|never|every|all)\b[^.]{0,20}\b(?:answer|choose|give|pick|rate|return|select|assign|reply|score)\b|"
    r"\b(?:answer|choose|give|pick|rate|return|select|assign|reply)\b[^.]{0,40}\b(?:always|regardless|no matter)\b|"
    r"\byou are now\b|\bsystem prompt\b",
    re.IGNORECASE,
)


def proposal_faults(
    proposal: Proposal, criterion: Criterion, texts: Iterable[str], models: Collection[str]
) -> tuple[str, ...]:
    """Reasons not to try a proposal; empty if it may be tried.

    texts: prompts, outputs, references and notes that the proposing model was shown. models: names in the outputs.
    """
    return tuple(_faults(proposal, criterion, tuple(texts), models))


def _faults(proposal: Proposal, criterion: Criterion, texts: tuple[str, ...], models: Collection[str]) -> Iterator[str]:
    proposed = "\n".join([proposal.guidance, *(text.description for text in proposal.levels)])
    if not proposal.guidance.strip():
        yield "it has no text"
        return
    if len(proposal.guidance) > LONGEST_GUIDANCE:
        yield f"it has {len(proposal.guidance):,} characters, expected at most {LONGEST_GUIDANCE:,}"
    if inert_text(proposed) != proposed:
        yield "it has marks of a chat template or hidden characters"
    if order := _ORDER.search(proposed):
        yield f"it gives an order to the judge: {order[0]!r}"
    level_ids = [level.id for level in criterion.ranked_levels]
    if strange := [text.level for text in proposal.levels if text.level not in level_ids]:
        yield f"it words the level {strange[0][:40]!r}, expected one of {', '.join(level_ids[:10])}"
    method = criterion.method_as(JudgeMethod)
    own_words = "\n".join([criterion.description, method.guidance or "", *_level_texts(criterion)])
    if (length := _LENGTH.search(proposed)) and not _LENGTH.search(own_words):
        yield f"it names a length, {length[0]!r}, which the question does not ask for"
    if name := next((name for name in models if _names(proposed, name) and not _names(own_words, name)), None):
        yield f"it names the model {name}"
    if phrase := _shared_phrase(proposed, own_words, texts):
        yield f"it repeats words of a case: {phrase!r}"


def _level_texts(criterion: Criterion) -> list[str]:
    return [text for level in criterion.ranked_levels for text in (level.label, level.description) if text]


def _names(text: str, name: str) -> bool:
    return len(name) > 2 and re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text.casefold()) is not None


def _shared_phrase(proposed: str, own_words: str, texts: tuple[str, ...]) -> str | None:
    """Phrase that the proposal shares with a case but not with the current question; None without any."""
    own_phrases = _phrases(own_words)
    case_phrases: set[tuple[str, ...]] = set()
    for text in texts:
        case_phrases |= _phrases(text)
    for phrase in _ordered_phrases(proposed):
        if phrase in case_phrases and phrase not in own_phrases:
            return " ".join(phrase)
    folded = tuple(" ".join(words_of(text)) for text in texts)
    for match in QUOTED.finditer(proposed):
        words = words_of(match[0])
        quoted = " ".join(words)
        if len(words) >= LEAST_QUOTED and any(quoted in text for text in folded):
            return quoted
    return None


def _phrases(text: str) -> set[tuple[str, ...]]:
    return set(_ordered_phrases(text))


def _ordered_phrases(text: str) -> list[tuple[str, ...]]:
    words = words_of(text)
    size = LONGEST_SHARED + 1
    return [words[start : start + size] for start in range(len(words) - size + 1)]
