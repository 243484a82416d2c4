"""Samples of rated outputs: the random one, and those that the judge's doubt drew beside it."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from gradebook.tasks.agreement.calibration import Judged, samples_of

COUNT = 100


def sample_of(random_ratings, doubt_ratings, rates, drawn_ids):
    """The one sample of a hundred outputs. random_ratings, doubt_ratings: by the number of the output."""
    names = [f"o{place}" for place in range(COUNT)]
    columns = {
        "criterion_id": ["tone"] * COUNT,
        "model": ["m"] * COUNT,
        "checkpoint": pa.nulls(COUNT, pa.string()),
        "shared": names,
        "output_id": names,
        "score": [float(place % 4 != 0) for place in range(COUNT)],
        "rating": pa.array([random_ratings.get(place) for place in range(COUNT)], pa.float64()),
        "is_drawn": [place in random_ratings for place in range(COUNT)],
        "doubt_rating": pa.array([doubt_ratings.get(place) for place in range(COUNT)], pa.float64()),
    }
    columns["gold_count"] = pa.nulls(COUNT, pa.int64())
    connection = duckdb.connect()
    connection.execute(
        "create table agreed_levels as from (values ('tone', 0.0), ('tone', 1.0)) as t(criterion_id, score)"
    )
    left_out = {("tone", "m", None): {"uncertain": len(doubt_ratings)}}
    (sample,) = samples_of(connection, Judged(pa.table(columns), {}, left_out, doubt_rates=rates, drawn_ids=drawn_ids))
    return sample


RANDOM = {place: float(place % 3 != 0) for place in range(20)}


def test_an_output_of_the_random_sample_alone_has_the_probability_of_both():
    doubted = {place: float(place % 3 != 0) for place in range(15, 55)}
    rates = {f"o{place}": 0.5 + place / 1000 for place in range(COUNT)}
    drawn = sample_of(RANDOM, doubted, rates, {f"o{place}" for place in doubted}).drawn
    assert drawn.rates == pytest.approx([1 - (0.5 - place / 1000) * 0.8 for place in range(COUNT)])
    assert np.flatnonzero(~np.isnan(drawn.ratings)).tolist() == [*range(55)]


def test_too_few_ratings_by_doubt_leave_the_random_samples_mean():
    both = sample_of(RANDOM, {50: 1.0}, {"o50": 0.01}, {"o50"})
    assert (both.drawn, both.selection, both.rated.n) == (None, None, 20)
    assert both.left_out == "left out: 1 rating of uncertain outputs, which a rule chose; 20 rated outputs of a sample"
