"""Steps of an agent as cards of the report."""

from typing import Any

from gradebook.tasks.reporting.sections.examples import MOST_CARD_TEXT, step_cards


def row(step_index: int, **fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("name", "agent", "input", "output", "error", "latency_ms", "tokens", "cost_usd"))
    return nothing | {"step_count": 100, "error_count": 7, "step_index": step_index, "kind": "tool"} | fields


def test_evidence_is_marked_in_the_step_that_has_it():
    found = step_cards([row(0, output="2 rooms, 7 and 9"), row(1, output="none")], [("Path", "7 and 9")])
    marked = [[piece.text for piece in card.output if piece.criteria] for card in found.cards]
    assert marked == [["7 and 9"], []]


def test_steps_that_are_not_shown_are_counted():
    found = step_cards([row(0), row(1, error="no"), row(98), row(99)], ())
    assert [(card.number, card.left_out) for card in found.cards] == [(0, 0), (1, 0), (97, 96), (98, 0), (99, 0)]
    assert (found.step_count, found.error_count) == (100, 7)


def test_a_card_has_agent_time_tokens_and_cost_and_a_part_of_long_texts():
    card = step_cards(
        [row(0, name="a\u202eb", agent="x", latency_ms=1234.0, tokens=1500, cost_usd=0.01, input="y" * 5_000)], ()
    ).cards[0]
    assert card.about == "x · 1.2 s · 1,500 tokens · $0.0100"
    assert "\u202e" not in card.title
    assert sum(len(piece.text) for piece in card.input) == MOST_CARD_TEXT
    assert sum(piece.left_out for piece in card.input) == 5_000 - MOST_CARD_TEXT
