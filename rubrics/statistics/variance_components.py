"""Variance components of scores, and what a larger design would gain (generalisability theory).

The components are those of Henderson's method I (1953; Searle, Casella and McCulloch 1992, section 5.3): the sums of
squares over the levels of each facet are set equal to their expectations. So the design may be unbalanced; in a
balanced one they are the expected mean squares of the analysis of variance, as in Brennan (2001).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats

CASE, SAMPLE, JUDGE, OUTPUT_JUDGE, RATER, REST = "case", "sample", "judge", "output_judge", "rater", "replicate"
Codes = NDArray[np.int64]


def variance_components(scores: Floats, facets: Mapping[str, Codes]) -> dict[str, float]:
    """Variance of each facet, in order, and of the rest as `REST`; a negative estimate is 0.

    scores: (n,), no NaN. facets: level of each score, (n,), by the facet's name; a nested facet has levels of its own
    in each level of the other. A facet with a single level, with the levels of an earlier one, or with a level for each
    score is not apart from others and is left out. Empty if nothing is left to tell apart from the rest.
    """
    apart = _apart(scores.size, facets)
    if not apart:
        return {}
    levels = [np.zeros(scores.size, dtype=np.int64), *apart.values(), np.arange(scores.size)]
    centred = scores - scores.mean()  # the mean's own term takes up the shift
    sums = [float((np.bincount(each, weights=centred) ** 2 / np.bincount(each)).sum()) for each in levels]
    expected = np.array([[scores.size, *(_shared(each, facet) for facet in levels[1:])] for each in levels])
    found = np.linalg.solve(expected, np.array(sums))[1:]
    return {name: max(0.0, float(value)) for name, value in zip([*apart, REST], found, strict=True)}


def _apart(n: int, facets: Mapping[str, Codes]) -> dict[str, Codes]:
    """Facets with levels of their own, as codes from 0."""
    found: dict[str, Codes] = {}
    for name, given in facets.items():
        codes = np.unique(given, return_inverse=True)[1].ravel()
        count = int(codes.max(initial=-1)) + 1
        is_new = all(
            _joint(codes, other)[0].size > max(count, int(other.max()) + 1) or count != int(other.max()) + 1
            for other in found.values()
        )
        if 1 < count < n and is_new:
            found[name] = codes
    return found


def _shared(levels: Codes, facet: Codes) -> float:
    """Coefficient of a facet's variance in the sum of squares over levels: sum of n_ab^2 / n_a."""
    pairs, counts = _joint(levels, facet)
    return float((counts**2 / np.bincount(levels)[pairs // (int(facet.max()) + 1)]).sum())


def _joint(one: Codes, other: Codes) -> tuple[Codes, Floats]:
    """Pairs of levels that occur together, as one x (levels of other) + other, and their numbers."""
    pairs, counts = np.unique(one * (int(other.max()) + 1) + other, return_counts=True)
    return pairs, counts.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Design:
    """Numbers of an evaluation: cases, samples of each case, and replies to each output."""

    case_count: float
    sample_count: float
    replicate_count: float

    def standard_error(self, components: Mapping[str, float]) -> float:
        """Standard error of the mean score, if cases, samples and replies were drawn anew.

        components: of `variance_components`. Without a component of its own, samples count as part of the case.
        """
        of_case = components.get(CASE, 0.0) + components.get(SAMPLE, 0.0) / self.sample_count
        replies = components[REST] / (self.sample_count * self.replicate_count)
        return sqrt((of_case + replies) / self.case_count)

    @property
    def reply_count(self) -> float:
        """Number of replies, which is what costs."""
        return self.case_count * self.sample_count * self.replicate_count
