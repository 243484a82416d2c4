"""Distributions over the levels of a criterion, and their scores.

Distributions are read from probabilities, or from the tokens of a reply.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices, parse_reply, read_ending, unreadable

VerdictKind = Literal["mean", "mode", "threshold"]


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """Rule by which a distribution becomes a verdict.

    mean: the expected score; mode: the score of the most probable level; threshold: the score of the best level L for
    which P(L or better) is at least the threshold. temperatures: by criterion id; the probabilities
    count as `tempered` by them.
    """

    kind: VerdictKind = "mean"
    probability: float = 0.5
    temperatures: tuple[tuple[str, float], ...] = ()


MEAN = VerdictRule()


def read_distribution(masses: Mapping[str | None, float], least_share: float = 0.0) -> ReadReply:
    """Read probabilities as a distribution over the levels.

    masses: by level id, worst level first; None: "can't be judged". Levels below least_share of all masses are dropped;
    the others are scaled to sum 1. level_id: the most probable level, the worst on ties.
    """
    likeliest = max(masses, key=lambda level_id: masses[level_id])  # the first on ties
    if likeliest is None:
        return ReadReply("abstained")
    least = least_share * math.fsum(masses.values())
    kept_masses = {level_id: mass for level_id, mass in masses.items() if level_id is not None and mass >= least}
    total = math.fsum(kept_masses.values())
    return ReadReply(
        "scored", likeliest, distribution={level_id: mass / total for level_id, mass in kept_masses.items()}
    )


def expected_score(distribution: Mapping[str, float], criterion: Criterion) -> float:
    """Mean of the levels' scores under a distribution (G-Eval, arXiv 2303.16634, equation 1), in 0..1.

    distribution: level id -> probability, with sum 1.
    """
    scores = {level.id: level.score for level in criterion.ranked_levels}
    return math.fsum(probability * scores[level_id] for level_id, probability in distribution.items())


def tempered(distribution: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Distribution with probabilities p^(1 / temperature), scaled to sum 1: flatter above 1, sharper below."""
    largest = max(distribution.values())
    powers = {level_id: (mass / largest) ** (1 / temperature) for level_id, mass in distribution.items()}
    total = math.fsum(powers.values())
    return {level_id: mass / total for level_id, mass in powers.items()}


def threshold_distance(distribution: Mapping[str, float], criterion: Criterion) -> float:
    """Distance of a distribution from the decision limit of the criterion, in 0..1.

    With a threshold: |expected score - threshold|. A gate without a threshold: |P(best level) - 0.5|. NaN for other
    criteria. distribution: level id -> probability, with sum 1; other names are ignored.
    """
    levels = criterion.ranked_levels
    if criterion.threshold is not None:
        level_probabilities = {level.id: distribution.get(level.id, 0.0) for level in levels}
        return abs(expected_score(level_probabilities, criterion) - criterion.threshold)
    return abs(distribution.get(levels[-1].id, 0.0) - 0.5) if criterion.gate else math.nan


def verdict_of(distribution: Mapping[str, float], criterion: Criterion, rule: VerdictRule = MEAN) -> tuple[str, float]:
    """Level and score (0..1) of a distribution by a rule. distribution: level id -> probability.

    The level is the most probable one, except with the rule threshold. With the rule mean, a gate without a threshold
    takes the score of that level, as an expected score never reaches the best level.
    """
    if temperature := dict(rule.temperatures).get(criterion.id):
        distribution = tempered(distribution, temperature)
    levels = [level for level in criterion.ranked_levels if level.id in distribution]
    if rule.kind == "threshold":
        mass_reached, level_at_threshold = 0.0, levels[0]
        for level in reversed(levels):
            mass_reached += distribution[level.id]
            if mass_reached >= rule.probability:
                level_at_threshold = level
                break
        return level_at_threshold.id, level_at_threshold.score
    mode = max(levels, key=lambda level: distribution[level.id])  # the worst on ties
    if rule.kind == "mode" or (criterion.gate and criterion.threshold is None):
        return mode.id, mode.score
    return mode.id, expected_score(distribution, criterion)


LEAST_MASS = 0.5  # probability of all labels together at the position of the reply's label
LEAST_SHARE = 0.01  # share of the labels' mass below which a level is noise
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

    labels: label -> level id, the worst level first, None for "can't be judged". The position is the last token with
    the reply's label; all alternatives there that are labels count. Levels under 1% of the
    labels' mass are dropped; the others are scaled to sum 1. level_id: the most probable level, the worst on ties.
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
        message = f"found {mass:.2g} as the probability of all labels together, expected at least {LEAST_MASS}"
        remedy = "; the server may mask them: vLLM takes --logprobs-mode raw_logprobs" if mass == 0 else ""
        return ReadReply("parse_error", rationale=message + remedy, fault="unknown_label")
    return read_distribution({level_id: masses[label] for label, level_id in labels.items()}, LEAST_SHARE)


def _sampled_label(text: str) -> str | None:
    """Label named in the reply: from JSON, or a bare word."""
    reply = parse_reply(text, _Reply)
    if not isinstance(reply, ReadReply):
        return reply.level
    word = text.strip().strip('"')
    return word if word.isalpha() else None


def _label_masses(sampled: str, choices: TokenChoices, labels: Mapping[str, str | None]) -> dict[str, float]:
    """Probability of each label at the position of the reply's label; 0 if it is not among the alternatives."""
    masses = dict.fromkeys(labels, 0.0)
    alternatives = next((token for token in reversed(choices) if token and _bare(token[0][0]) == sampled), ())
    for token, logprob in dict(alternatives).items():  # the sampled token is repeated among the alternatives
        label = _bare(token)
        if label in masses and not math.isnan(logprob):
            masses[label] += math.exp(min(logprob, 0.0))  # "C" and " C" are one label
    return masses


def _bare(token: str) -> str:
    return token.lstrip(_BEFORE).rstrip(_AFTER)
