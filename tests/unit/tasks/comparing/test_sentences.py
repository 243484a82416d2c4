"""Remarks on a comparison."""

from gradebook.tasks.comparing.sentences import each_once


def test_a_remark_on_several_rows_is_said_once():
    remarks = [("tone", "few"), ("facts", "skewed"), ("length", "few")]
    assert [*each_once(remarks)] == ["tone, length: few", "facts: skewed"]
