"""Segments of a criterion's scale."""

from typing import Any

from gradebook.tasks.reporting.sections.spread import read_scale

LEVELS = [
    {"level_id": "bad", "label": None},
    {"level_id": "so_so", "label": "So so"},
    {"level_id": "good", "label": None},
]


def counted(level_id: str | None, n: int, place: float | None = None, score: float = 0.0) -> dict[str, Any]:
    return {"level_id": level_id, "place": place, "band": int(min(score * 5, 4)), "score": score, "n": n}


def names_and_counts(levels: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(segment.name, count) for segment, count in read_scale(levels, rows).counts(rows).items()]


def test_levels_are_sorted_from_worst_to_best_with_their_labels():
    rows = [counted("good", 2), counted("bad", 1)]
    assert names_and_counts(LEVELS, rows) == [("bad", 1), ("So so", 0), ("good", 2)]


def test_a_mean_of_opinions_is_placed_at_a_level_or_between_two():
    rows = [counted("good", 5), counted(None, 1, 0.5), counted(None, 2, 1.0), counted(None, 1, -0.5)]
    found = [("below bad", 1), ("bad", 0), ("between bad and So so", 1), ("So so", 2), ("good", 5)]
    assert names_and_counts(LEVELS, rows) == found
    assert read_scale(LEVELS, rows).level_names == ("bad", "So so", "good")


def test_scores_mostly_without_a_level_are_shown_in_fifths():
    rows = [counted(None, 3, 0.5, score=0.3), counted("good", 1, score=1.0)]
    found = names_and_counts(LEVELS, rows)
    assert found == [("0 to 0.2", 0), ("0.2 to 0.4", 3), ("0.4 to 0.6", 0), ("0.6 to 0.8", 0), ("0.8 to 1", 1)]


def test_a_per_case_criterion_has_the_levels_of_its_verdicts():
    rows = [counted("yes", 1, score=1.0), counted("no", 2, score=0.0)]
    assert names_and_counts([], rows) == [("no", 2), ("yes", 1)]


def test_a_level_unknown_to_the_criterion_is_another_level():
    assert names_and_counts(LEVELS, [counted("good", 2), counted("odd", 1)])[-1] == ("another level", 1)
