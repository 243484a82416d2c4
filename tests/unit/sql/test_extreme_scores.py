"""Extreme scores, weights and metadata: the marts of a paid run are built all the same."""

import json

import numpy as np
import pytest

from gradebook.tasks.marts.checks import check_marts
from tests.support.nightly import matrix


def broken(connection):
    return [found.name for found in check_marts(connection) if found.broken_count and found.severity == "error"]


def value(connection, query):
    return connection.execute(query).fetchone()


@pytest.mark.nightly
def test_a_rest_of_ones_has_a_mean_of_one(build):
    scores = [1.0] * 9 + [0.0] * 11 + [1.0] * 5
    rows = {f"o{index}": {"tone": score} for index, score in enumerate(scores)}
    outputs = {f"o{index}": {"metadata": json.dumps({"topic": "a" if index < 20 else "b"})} for index in range(25)}
    connection = build({"tone": {}}, rows, outputs=outputs)
    assert (value(connection, "select rest_mean from weak_spots"), broken(connection)) == ((1.0,), [])


@pytest.mark.parametrize("weights", [*matrix([((1.0, -1e6),)]), (1e-6, -1e6)])
def test_penalties_a_million_times_the_points_are_published(build, weights):
    rows = {f"o{index}": {"met": 1.0, "rude": float(index % 2)} for index in range(30)}
    connection = build({"met": {"weight": weights[0]}, "rude": {"weight": weights[1]}}, rows)
    assert (value(connection, "select n, mean from run_scores"), broken(connection)) == ((30, 0.0), [])


def test_the_mean_of_any_number_of_ones_is_one(build):
    connection = build({"tone": {}}, {"o": {"tone": 1.0}})
    assert value(connection, "select exact_mean(1.0::double), exact_sd(1.0::double) from range(295151)") == (1.0, 0.0)


def test_nearly_all_outputs_in_one_cluster_have_an_interval(build):
    rows = {f"o{index}": {"tone": index % 3 / 2} for index in range(3000)}
    outputs = {f"o{index}": {"cluster": "document"} for index in range(2999)}
    connection = build({"tone": {}}, rows, outputs=outputs)
    assert value(connection, "select n, cluster_count, ci_low is not null from run_scores") == (3000, 2, True)


@pytest.mark.nightly
def test_clusters_of_one_value_have_an_effective_sample_size_equal_to_their_number(build):
    # of tone each case has one score here, of form two: tone is 1 of 2, 0.0126..0.9874
    rows = {"a": {"tone": 1.0, "form": 0.5}, "b": {"tone": 0.0, "form": 1.0}, "c": {"tone": None, "form": 0.0}}
    outputs = {"a": {"case_id": "x"}, "b": {"case_id": "y"}, "c": {"case_id": "y"}}
    connection = build({"tone": {}, "form": {}}, rows, outputs=outputs, weights="outputs")
    found = value(connection, "select ci_low, ci_high from criterion_scores where criterion_id = 'tone'")
    assert found == pytest.approx((0.0126, 0.9874), abs=1e-4)


@pytest.mark.nightly
def test_a_category_of_penalties_has_its_own_interval(build):
    scores = np.random.default_rng(2).integers(0, 2, 40).tolist()
    rows = {f"o{index}": {"met": 1.0, "rude": float(score)} for index, score in enumerate(scores)}
    criteria = {"met": {"weight": 1.0, "category": "c"}, "rude": {"weight": -9.0, "category": "c"}}
    low, mean, high = value(build(criteria, rows), "select ci_low, mean, ci_high from category_scores")
    assert low < mean < high < 0


def test_thousands_of_metadata_keys_in_one_output_are_fast(build):
    keys = {f"key {number}": number for number in range(20_000)} | {"a.b": "x", "": "y", '"': True}
    rows = {f"o{index}": {"tone": index % 2} for index in range(12)}
    outputs = {f"o{index}": {"metadata": json.dumps(keys if index == 3 else {"a.b": "z"})} for index in range(12)}
    connection = build({"tone": {}}, rows, outputs=outputs)
    assert value(connection, "select count(*) from stg_slices where slice_key in ('a.b', '', '\"')") == (14,)


def test_only_the_first_fifty_metadata_keys_are_used(build):
    rows = {f"o{index:02}": {"tone": float(index > 5)} for index in range(12)}
    outputs = {
        name: {"metadata": json.dumps({f"key {number:03}": name > "o05" for number in range(70)})} for name in rows
    }
    connection = build({"tone": {}}, rows, outputs=outputs)
    assert value(connection, "select count(distinct slice_key), max(slice_key) from weak_spots") == (50, "key 049")
