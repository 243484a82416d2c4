"""Evidence that a judge changed: a betting e-process over fixed outputs that it judges again and again.

Under the hypothesis that nothing changed, the replies on one anchor can be exchanged. A new score minus the mean of all
scores of its anchor, itself included, is then 0 on average, whatever the anchor's own mean is, which may be unknown.
Scores that chose the anchor must stay out: a level that was chosen because it is rare is often a slip of the judge.

The product of 1 + bet * contrast multiplies the wealth of a gambler who bets against the hypothesis (Waudby-Smith and
Ramdas 2024, "Estimating means of bounded random variables by betting"). A mixture over the night on which the change
began keeps the evidence of quiet nights from hiding a late change (Shin, Ramdas and Rinaldo 2024, "E-detectors").
The probability of wealth above 1/alpha, ever, is at most alpha for a martingale; bench/drift.py measures it here.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats

BETS = np.array([-0.6, -0.25, 0.25, 0.6])  # fixed shares of the wealth; below 1, as contrasts lie in -1..1


def contrasts(scores: Floats, earlier_sums: Floats, earlier_counts: NDArray[np.int64]) -> Floats:
    """New scores minus the means of their anchors, the new score included; in -1..1.

    All arrays: (..., anchor). scores: 0..1, NaN where the judge gave none. earlier_sums, earlier_counts: of the
    anchor's scores before. Without one the contrast is 0, which says nothing.
    """
    found = (earlier_counts * scores - earlier_sums) / (earlier_counts + 1)
    return np.where(np.isnan(found), 0.0, found)


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """Evidence after some nights. wealth, recent: (..., bet), of gamblers from the first night and from later ones."""

    night_count: int = 0
    wealth: Floats = field(default_factory=lambda: np.ones(BETS.size))
    recent: Floats = field(default_factory=lambda: np.zeros(BETS.size))

    def after(self, found: Floats) -> "DriftEvidence":
        """Evidence after one more night. found: `contrasts` of the night, (..., anchor)."""
        night = self.night_count + 1
        gain = np.exp(np.log1p(found[..., None] * BETS).sum(axis=-2))
        share = 1 / (night * (night + 1))  # of the gamblers who start on this night; all shares add up to 1
        return DriftEvidence(night, self.wealth * gain, (self.recent + share) * gain)

    @property
    def e_value(self) -> Floats:
        """Mean wealth over bets and first nights, (...): 1 in the beginning, large if the scores moved."""
        unspent = 1 / (self.night_count + 1)  # of the gamblers who start later
        found: Floats = 0.5 * ((self.wealth + self.recent).mean(axis=-1) + unspent)
        return found
