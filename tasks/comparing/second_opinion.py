"""Second opinion on a comparison of few cases: the criteria together, by a hierarchical model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradebook.rubrics.statistics.shrinkage import LEAST_CASES, LEAST_CRITERIA, Shrunk, shrink_differences
from gradebook.rubrics.text.wording import counted, signed_words
from gradebook.tasks.comparing.case_pairs import PairedSides


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Differences B - A of criteria drawn together. posterior: None if there are too few criteria or cases."""

    criterion_ids: tuple[str, ...]
    posterior: Shrunk | None

    @property
    def sentence(self) -> str:
        posterior = self.posterior
        if posterior is None:
            return (
                f"No second opinion: it takes {LEAST_CRITERIA} criteria or more with scores of {LEAST_CASES} cases or "
                "more, and differences that vary."
            )
        value, low, high = posterior.common
        in_common = f"{signed_words(value)} ({signed_words(low)} to {signed_words(high)})"
        return (
            f"Second opinion on {counted(posterior.case_count, 'case')}: B - A is {in_common} over all criteria, with "
            f"a spread of {posterior.tau:.3f} between them. It assumes normal differences and criteria that are alike, "
            "allows for no rare heavy losses, and decides nothing."
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row for each criterion, the lowest first; none without a posterior."""
        if self.posterior is None:
            return []
        columns = ("plain", "values", "lows", "highs", "below")
        values = zip(*(getattr(self.posterior, name).tolist() for name in columns), strict=True)
        names = ("difference", "shrunk", "low", "high", "worse_probability")
        rows = [
            {"criterion_id": criterion_id, **dict(zip(names, row, strict=True))}
            for criterion_id, row in zip(self.criterion_ids, values, strict=True)
        ]
        return sorted(rows, key=lambda row: float(row["shrunk"]))

    def as_json(self) -> dict[str, Any]:
        common = (
            None if self.posterior is None else dict(zip(("value", "low", "high"), self.posterior.common, strict=True))
        )
        tau = None if self.posterior is None else self.posterior.tau
        return {"common": common, "tau": tau, "criteria": self.rows(), "sentence": self.sentence}


def give_second_opinion(sides: PairedSides, criterion_ids: Sequence[str]) -> SecondOpinion:
    """Draw the criteria's differences together; each case counts once, by its mean over pairs."""
    of_sides = {name: sides.by_criterion[name] for name in criterion_ids if name in sides.by_criterion}
    case_count = max((int(pairs.cases.max(initial=-1)) + 1 for pairs in of_sides.values()), default=0)
    differences = np.full((case_count, len(of_sides)), np.nan)
    for column, pairs in enumerate(of_sides.values()):
        cases = pairs.cases[pairs.is_scored]
        sums = np.bincount(cases, (pairs.scores_b - pairs.scores_a)[pairs.is_scored], minlength=case_count)
        counts = np.bincount(cases, minlength=case_count)
        differences[:, column] = np.divide(sums, counts, out=np.full(case_count, np.nan), where=counts > 0)
    posterior = shrink_differences(differences) if case_count and len(of_sides) >= LEAST_CRITERIA else None
    return SecondOpinion(tuple(of_sides), posterior)
