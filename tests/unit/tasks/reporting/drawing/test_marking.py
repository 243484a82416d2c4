"""Marked evidence, cut texts and deceptive characters written out."""

import pytest

from gradebook.tasks.reporting.rendering import Segment, judge_quotes, quotes_of, segments_of, visible


def marked(text, *evidence, **settings):
    """Pieces with evidence, each with its criteria."""
    return [(piece.text, piece.criteria) for piece in segments_of(text, evidence, **settings) if piece.criteria]


def test_evidence_is_marked_at_its_position():
    pieces = segments_of("We refund you in full.", [("policy", "refund you")])
    assert [piece.text for piece in pieces] == ["We ", "refund you", " in full."]
    assert [piece.criteria for piece in pieces] == [(), ("policy",), ()]


def test_overlapping_evidence_is_split_and_each_piece_names_its_criteria():
    found = marked("one two three", ("a", "one two"), ("b", "two three"))
    assert found == [("one ", ("a",)), ("two", ("a", "b")), (" three", ("b",))]


def test_evidence_shared_by_two_criteria_is_one_mark():
    assert marked("so kind", ("tone", "kind"), ("warmth", "kind"), ("tone", "kind")) == [("kind", ("tone", "warmth"))]


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("Within  30\n days.", "within 30 DAYS", "Within  30\n days"),
        ("no\u200bthing is ﬁne", "nothing is fine", "no[U+200B]thing is ﬁne"),
        ('She said "go\nnow".', 'said \\"go\\nnow', 'said "go\nnow'),
        ("cannot, but no", "no", "no"),
    ],
)
def test_evidence_is_found_regardless_of_case_spaces_and_escapes(text, quote, found):
    assert marked(text, ("a", quote)) == [(found, ("a",))]


def test_a_short_word_is_marked_only_as_a_whole_word():
    assert [piece.text for piece in segments_of("cannot, but no", [("a", "no")])] == ["cannot, but ", "no"]


@pytest.mark.parametrize("quote", ["", "  ", "\u200b", "elsewhere"])
def test_evidence_that_does_not_occur_marks_nothing(quote):
    assert marked("a text", ("a", quote)) == []


def test_a_long_text_is_cut_but_evidence_far_down_stays_visible():
    text = "x" * 50_000 + " the proof " + "y" * 50_000
    pieces = segments_of(text, [("a", "the proof")])
    assert marked(text, ("a", "the proof")) == [("the proof", ("a",))]
    assert sum(len(piece.text) for piece in pieces) == 6_000
    assert sum(len(piece.text) + piece.left_out for piece in pieces) == len(text)


def test_evidence_at_the_cut_is_shown_once_and_nothing_is_lost():
    text = "x" * 2_995 + " proof " + "y" * 9_000
    pieces = segments_of(text, [("a", "proof")])
    assert "".join(piece.text for piece in pieces) == text[: sum(len(piece.text) for piece in pieces)]
    assert sum(len(piece.text) + piece.left_out for piece in pieces) == len(text)


def test_too_much_evidence_does_not_lengthen_the_shown_text():
    text = " ".join(f"word{number:05}" for number in range(10_000))
    evidence = [("a", f"word{number:05}") for number in range(0, 10_000, 100)]
    assert sum(len(piece.text) for piece in segments_of(text, evidence)) <= 6_000


def test_deceptive_invisible_characters_are_written_out():
    assert visible("a\x00b\x1b[31m\u202egnp.exe\u2028\x7f\x85") == "a␀b␛[31m[U+202E]gnp.exe[U+2028]␡[U+0085]"


def test_line_feeds_tabs_direction_marks_and_emoji_are_unchanged():
    assert visible("a\tb\r\nc \u200fאבג\u200e 👩\u200d🔬") == "a\tb\nc \u200fאבג\u200e 👩\u200d🔬"


def test_quotes_of_a_judge_and_words_of_a_check_are_searched_for():
    assert quotes_of('["one", " ", "two"]', "judge") == ("one", "two")
    assert quotes_of("found 'As an AI', \"don't\"", "check") == ("As an AI", "don't")
    assert quotes_of("16 words, at least 20 required", "check") == ()
    assert quotes_of("rater_a: clear", "ratings") == quotes_of(None, "judge") == ()


@pytest.mark.parametrize("evidence", ["[1, 2]", "[", "[" * 100_000, "plain"])
def test_evidence_that_is_not_a_list_of_quotes_is_a_text(evidence):
    assert judge_quotes(evidence) is None


def test_lines_of_a_diff_have_their_kind_and_no_other_text_has_lines():
    diff = Segment("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same").diff
    assert [kind for kind, _ in diff] == ["place", "place", "place", "removed", "added", "same"]
    assert Segment("- a list\n+ another").diff == ()
