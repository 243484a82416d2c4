"""What a plan counts: requests of packs, and of what depends on another judge."""

from typing import Any

import pyarrow as pa

from gradebook.tasks.planning.estimates import COUNTED_SCHEMA, Asked, Tally, count_asked

OPEN, HELD = None, "scored"


def rows_of(*rows: tuple[str, str, str | None, bool | None], size: int = 100) -> pa.Table:
    """Rows of one criterion: output, key, status, is_needed."""
    same = {"judge_index": 0, "replicate": 0, "is_swapped": False, "prompt_bytes": size}
    names = ("output_id", "request_key", "status", "is_needed")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) | same for row in rows], COUNTED_SCHEMA)


def asked(*pack: pa.Table) -> Any:
    return count_asked(pack)


def test_equal_questions_are_one_request():
    assert asked(rows_of(("a", "k", OPEN, True), ("b", "k", OPEN, True))) == (Asked(1, 100), Asked())


def test_what_is_held_is_not_asked():
    assert asked(rows_of(("a", "k", HELD, True), ("b", "l", OPEN, True))) == (Asked(1, 100), Asked())


def test_a_pack_is_asked_whole_where_one_of_its_criteria_is_open():
    first = rows_of(("a", "a1", HELD, True), ("b", "b1", HELD, True))
    second = rows_of(("b", "b2", OPEN, True), ("a", "a2", HELD, True))
    assert asked(first, second) == (Asked(1, 100), Asked())


def test_what_is_not_needed_is_not_asked_and_what_may_be_is_asked_at_most():
    found = asked(rows_of(("a", "a1", OPEN, True), ("b", "b1", OPEN, None), ("c", "c1", OPEN, False)))
    assert found == (Asked(1, 100), Asked(1, 100))


def test_a_pack_is_sure_to_be_asked_where_one_of_its_criteria_is():
    assert asked(rows_of(("a", "a1", OPEN, None)), rows_of(("a", "a2", OPEN, True))) == (Asked(1, 100), Asked())


def test_nothing_wanted_is_nothing_asked():
    assert asked(rows_of()) == (Asked(), Asked())


def test_a_request_counts_at_the_first_criterion_of_its_pack_and_its_bytes_at_each():
    tallies = [Tally(), Tally(), Tally()]
    for place, tally in enumerate(tallies):
        tally.add_asked(Asked(2, 200), Asked(1, 100), place, 3)
    # 200 = 67 + 67 + 66, 100 = 34 + 33 + 33
    assert [tally.prompt_bytes for tally in tallies] == [101, 100, 99]
    assert [(tally.request_count, tally.at_most_requests) for tally in tallies] == [(3, 1), (0, 0), (0, 0)]
    assert {(tally.question_count, tally.at_most_count) for tally in tallies} == {(3, 1)}


def test_what_is_held_counts_as_replayed_only_where_it_is_needed():
    tally = Tally()
    tally.add_rows(rows_of(*((str(n), str(n), HELD, needed) for n, needed in enumerate((True, False, None)))))
    assert (tally.row_count, tally.replayed_count, tally.open_count) == (3, 1, 0)
