"""Series of looks (interim analyses): the level of each test, so that the whole series raises few false alarms.

bonferroni  alpha over the number of looks, the same on each
obf         spending of the O'Brien-Fleming type (Lan and DeMets 1983), little in the beginning, most in the end
lord        LORD++ (Ramdas et al. 2017): for a series without an end; each rejection earns level for later looks

Each look has data of its own, so levels add up (union bound). Where nothing ever changes, any false alarm of LORD is a
false discovery, so the probability of one is at most alpha too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal

REFERENCE_ALPHA = 0.05  # of the intervals and rules that a series corrects
MOST_FACTOR = 1e6
MOST_LOOKS = 1_000
_FIRST_SHARE = 0.5  # of alpha that LORD spends before a first rejection
# Weights of LORD: position ** -1.6 over zeta(1.6), which add up to 1. Slower ones leave a month without level.
_DECAY, _ZETA = 1.6, 2.2857656

Method = Literal["lord", "obf", "bonferroni"]
METHODS: tuple[Method, ...] = ("lord", "obf", "bonferroni")
_SETTING = re.compile(r"(alpha|method|looks)=([a-z]+|[0-9.]+)")


@dataclass(frozen=True, slots=True)
class Series:
    """Series of looks. alpha: maximum probability of a false alarm. looks: planned number; LORD does not need it."""

    alpha: float = 0.05
    method: Method = "lord"
    looks: int = 31

    def level(self, look: int, rejected: Sequence[int] = ()) -> float:
        """Level of a look, from 1; 0 after the planned looks. rejected: earlier looks whose test fired, sorted."""
        if self.method == "lord":
            return self._lord_level(look, rejected)
        if look > self.looks:
            return 0.0
        if self.method == "bonferroni":
            return self.alpha / self.looks
        return obf_spent(self.alpha, look / self.looks) - obf_spent(self.alpha, (look - 1) / self.looks)

    def factor(self, look: int, rejected: Sequence[int] = ()) -> float:
        """Number by which p is multiplied at a look, so that a rule on p < 0.05 is a test of its level."""
        level = self.level(look, rejected)
        return MOST_FACTOR if level <= REFERENCE_ALPHA / MOST_FACTOR else REFERENCE_ALPHA / level

    def _lord_level(self, look: int, rejected: Sequence[int]) -> float:
        first = _FIRST_SHARE * self.alpha
        earned = [self.alpha - first if index == 0 else self.alpha for index in range(len(rejected))]
        later = sum(
            share * _lord_weight(look - earlier)
            for share, earlier in zip(earned, rejected, strict=True)
            if earlier < look
        )
        return _lord_weight(look) * first + later


def read_series(text: str) -> Series:
    """Read a series from an option's text, such as `method=lord,alpha=0.05,looks=31`. Raises `ValueError`."""
    matches = [_SETTING.fullmatch(word.strip()) for word in text.split(",")]
    values = {match[1]: match[2] for match in matches if match is not None}
    method = next((name for name in METHODS if name == values.get("method", "lord")), None)
    alpha, looks = float(values.get("alpha", 0.05)), int(values.get("looks", 31))
    if not all(matches) or method is None or not 0 < alpha < 1 or not 1 <= looks <= MOST_LOOKS:
        raise ValueError(text)
    return Series(alpha, method, looks)


def obf_spent(alpha: float, share: float) -> float:
    """Two-sided level spent after a share (0..1) of the looks: 2 - 2 Phi(z / sqrt(share)) a side, z of alpha / 4."""
    if share <= 0:
        return 0.0
    normal = NormalDist()
    return 4 * normal.cdf(-normal.inv_cdf(1 - alpha / 4) / sqrt(min(share, 1.0)))


def _lord_weight(position: int) -> float:
    return float(position**-_DECAY) / _ZETA
