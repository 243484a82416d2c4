"""Agreement beyond chance on levels: the kappas of Cohen, Fleiss, Conger, Brennan and Prediger, and Gwet's AC1.

Each function takes many tables at once, such as those of a bootstrap, along the leading axis. NaN if chance alone
explains everything, as with equal ratings.
"""

import numpy as np

from gradebook.rubrics.model.arrays import Floats


def ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Divide; NaN if the denominator is 0 within the rounding error of a float sum."""
    is_zero = np.abs(denominators) <= 1e-12
    return np.where(is_zero, np.nan, numerators / np.where(is_zero, 1.0, denominators))


def distance_weights(scale: Floats, power: int) -> Floats:
    """Weights of disagreements: (level, level). scale: (level,), scores of the levels.

    power 0: all equal; 1: by distance, linear; 2: by its square. With evenly spaced levels, the last two are the linear
    and quadratic weights of Cohen (1968); otherwise the rubric's own distances count.
    """
    distances = np.abs(scale[:, None] - scale[None, :])
    return (distances > 0).astype(np.float64) if power == 0 else distances**power


def cohen_kappa(tables: Floats, weights: Floats) -> Floats:
    """Cohen's weighted kappa (1968) of two raters, 1 - observed over expected disagreement.

    tables: (table, level, level), counts of one rater's level by the other's. weights: see `distance_weights`. Returns
    (table,), in [-1, 1].
    """
    totals = tables.sum(axis=(1, 2))
    expected = np.einsum("tk,tl,kl->t", tables.sum(axis=2), tables.sum(axis=1), weights)
    observed = np.einsum("tkl,kl->t", tables, weights)
    return 1.0 - ratio(observed * totals, expected)


def fleiss_kappa(agreement: Floats, shares: Floats) -> Floats:
    """Fleiss' kappa (1971), for any number of raters; for two raters it is Scott's pi.

    agreement: (table,), mean share of agreeing pairs of ratings per unit. shares: (table, level), of each level, each
    unit with weight 1 whatever its number of ratings, so that ratings may be missing (Gwet 2014, chapter 2). Returns
    (table,).
    """
    expected = np.square(shares).sum(axis=1)
    return ratio(agreement - expected, 1.0 - expected)


def gwet_ac1(agreement: Floats, shares: Floats) -> Floats:
    """Gwet's AC1 (2008), which stays valid with high agreement on one level. Arguments as in `fleiss_kappa`.

    shares has a column for each level, including unused ones, as chance may choose any of them.
    """
    level_count = shares.shape[1]
    if level_count < 2:
        return np.full(len(shares), np.nan)
    expected = (shares * (1.0 - shares)).sum(axis=1) / (level_count - 1)
    return ratio(agreement - expected, 1.0 - expected)


def brennan_prediger(agreement: Floats, level_count: int) -> Floats:
    """Kappa of Brennan and Prediger (1981), where chance gives each level alike. Arguments as in `fleiss_kappa`."""
    if level_count < 2:
        return np.full(agreement.size, np.nan)
    return (agreement - 1.0 / level_count) / (1.0 - 1.0 / level_count)


def conger_kappa(agreement: Floats, rater_shares: Floats) -> Floats:
    """Conger's kappa (1980), Cohen's for any number of raters, each with its own shares of the levels.

    agreement: (table,), see `fleiss_kappa`. rater_shares: (table, rater, level), NaN of raters without ratings. Ratings
    may be missing (Gwet 2014, chapter 2). Returns (table,).
    """
    rater_count = rater_shares.shape[1]
    means = rater_shares.mean(axis=1)
    expected = (np.square(means) - rater_shares.var(axis=1, ddof=1) / rater_count).sum(axis=1)
    return ratio(agreement - expected, 1.0 - expected)
