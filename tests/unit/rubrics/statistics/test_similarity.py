"""Similarities beside their null, by hand."""

import numpy as np

from gradebook.rubrics.statistics.similarity import Similarities, compare_vectors, starts_of


def compared(own_places: list[int], others: list[list[float]], starts: list[int]) -> Similarities:
    """Two outputs, (1, 0) and (0.6, 0.8), with two own texts and one."""
    outputs = np.array([[1.0, 0.0], [0.6, 0.8]])
    own = np.array([[0.0, 1.0], [0.8, 0.6], [0.6, 0.8]])
    found = np.array(others).reshape(-1, 2)
    return compare_vectors(outputs, own, np.array([0, 2]), found, np.array(starts, int), np.array(own_places))


def test_the_most_similar_text_counts_and_the_own_case_is_no_null():
    # others: case A (1, 0) and (0, 1), case B (0.6, 0.8); the second output belongs to B
    found = compared([-1, 1], [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [0, 2])
    assert found.own.round(12).tolist() == [0.8, 1.0]
    assert found.null.round(12).tolist() == [0.8, 0.8]  # (1 + 0.6) / 2; 0.8
    assert found.other_counts.tolist() == [2, 1]
    assert found.rescaled.round(12).tolist() == [0.0, 1.0]


def test_cases_with_a_text_each_have_the_same_null():
    # others: case A (1, 0), case B (0.6, 0.8); the second output belongs to B
    found = compared([-1, 1], [[1.0, 0.0], [0.6, 0.8]], [0, 1])
    assert found.null.round(12).tolist() == [0.8, 0.6]
    assert found.other_counts.tolist() == [2, 1]


def test_without_other_cases_there_is_no_null():
    assert np.isnan(compared([-1, -1], [], []).null).all()
    assert np.isnan(compared([0, 0], [[1.0, 0.0]], [0]).rescaled).all()


def test_nothing_is_rescaled_by_a_null_of_1():
    found = Similarities(np.array([1.0]), np.array([1.0]), np.array([9]))
    assert np.isnan(found.rescaled).all()


def test_starts_count_the_texts_before():
    assert starts_of(["ab", "c", "de"]).tolist() == [0, 2, 3]
    assert starts_of([]).tolist() == []
