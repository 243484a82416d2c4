"""Number formats."""

import pytest

from gradebook.rubrics.text.wording import p_relation, rate_words, size_words
from gradebook.tasks.lake.rows import pair_name
from tests.support.law_over import law_over


@law_over(
    ("value", "words"),
    [(None, "–"), (0.0, "0.0%"), (1.0, "100.0%"), (0.5, "50.0%"), (4_999 / 5_000, ">99.9%"), (1 / 5_000, "<0.1%")],
)
def test_0_and_100_percent_are_shown_only_if_exact(value, words):
    assert rate_words(value) == words


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("m", "m"), "m"),
        (("m", "n"), "m and n"),
        (("m @ 100", "m @ 200"), "m @ 100 → 200"),
        (("m @ 100", "n @ 200"), "m @ 100 and n @ 200"),
        (("m", "m @ 200"), "m and m @ 200"),
    ],
)
def test_the_name_of_a_pair_omits_a_shared_part(names, words):
    assert pair_name(*names) == words


def test_sizes_are_in_the_largest_unit_that_leaves_a_whole_part():
    assert [size_words(count) for count in (1, 999, 65_358, 3_200_000)] == ["1 byte", "999 bytes", "65.4 kB", "3.2 MB"]


def test_a_tiny_p_has_one_relation():
    assert [p_relation(p) for p in (0.0441, 1e-9)] == ["= 0.044", "<0.001"]
