"""Probability of each level from the tokens of a reply."""

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices, parse_reply, read_ending, unreadable

LEAST_MASS = 0.5  # of all labels together, at the place of the reply's own label
LEAST_SHARE = 0.01  # of the labels' mass: a level below it is noise
# Characters around a label within its token: blanks, also in tokenizers' notation, and JSON marks.
_BEFORE, _AFTER = ' \t\r\n":{\u2581\u0120\u010a', ' \t\r\n"}'


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    level: str


def read_levels(
    text: str | None,
    finish_reason: str | None,
    refusal: str | None,
    choices: TokenChoices | None,
    labels: Mapping[str, str | None],
) -> ReadReply:
    """Read a reply that consists of a label as the distribution over the levels.

    labels: label -> level id, the worst level first, None for "can't be judged". The place is the last token that is
    the reply's own label; the alternatives there that are labels count, whichever was sampled. Levels under 1% of the
    labels' mass are dropped, and the others sum to 1. level_id: the most probable, the worst on ties.
    """
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    if not choices:
        return ReadReply("no_logprobs")
    sampled = _sampled_label(text or "")
    if sampled is None:
        return unreadable("found no label alone")
    masses = _label_masses(sampled, choices, labels)
    mass = sum(masses.values())
    if mass < LEAST_MASS:
        found = f"found {mass:.2g} as the probability of all labels together, expected at least {LEAST_MASS}"
        remedy = "; the server may mask them: vLLM takes --logprobs-mode raw_logprobs" if mass == 0 else ""
        return ReadReply("parse_error", rationale=found + remedy, fault="unknown_label")
    likeliest = max(masses, key=lambda label: masses[label])  # the first on ties
    if labels[likeliest] is None:
        return ReadReply("abstained")
    kept = {
        level_id: masses[label]
        for label, level_id in labels.items()
        if level_id is not None and masses[label] >= LEAST_SHARE * mass
    }
    whole = sum(kept.values())
    distribution = {level_id: probability / whole for level_id, probability in kept.items()}
    return ReadReply("scored", labels[likeliest], distribution=distribution)


def _sampled_label(text: str) -> str | None:
    """Label named in the reply: from JSON, or a bare word."""
    reply = parse_reply(text, _Reply)
    if not isinstance(reply, ReadReply):
        return reply.level
    word = text.strip().strip('"')
    return word if word.isalpha() else None


def _label_masses(sampled: str, choices: TokenChoices, labels: Mapping[str, str | None]) -> dict[str, float]:
    """Probability of each label at the place of the reply's own; 0 if it is not among the alternatives."""
    masses = dict.fromkeys(labels, 0.0)
    here = next((token for token in reversed(choices) if token and _bare(token[0][0]) == sampled), ())
    for token, logprob in dict(here).items():  # the sampled token is repeated among the alternatives
        label = _bare(token)
        if label in masses and not math.isnan(logprob):
            masses[label] += math.exp(min(logprob, 0.0))  # "C" and " C" are one label
    return masses


def _bare(token: str) -> str:
    return token.lstrip(_BEFORE).rstrip(_AFTER)


def expected_score(distribution: Mapping[str, float], criterion: Criterion) -> float:
    """Mean of the levels' scores under a distribution (G-Eval, arXiv 2303.16634, equation 1), in 0..1.

    distribution: level id -> probability, with sum 1.
    """
    scores = {level.id: level.score for level in criterion.ranked_levels}
    return math.fsum(probability * scores[level_id] for level_id, probability in distribution.items())
