from gradebook.rubrics.checks.ifeval.lengths import count_sentences
from tests.support.law_over import law_over

COUNTS = [
    ("", 0),
    (" \n\t", 0),
    ("A title", 1),
    ("One. Two! Three? four", 4),
    ("One.Two", 1),
    ("Dr. Lee and J. R. Smith met Mrs. Ray.", 1),
    ("It was in the U.S. army. It was in the U.S. The army left.", 3),
    ("It is 3.14 or 1,000.5.", 1),
    ("See e.g. apples, pears, etc. and more.", 1),
    ("Well... maybe. Well... The end.", 3),
    ('He said "Stop." She did.', 2),
    ("He said “Stop.” She did.", 2),
    ("(One.) Two.", 2),
    ("What?! No!!! Yes", 3),
    ("Hi (hey!) there.", 2),
    ("1. Apples 2. Pears", 3),  # "1.", "Apples 2.", "Pears": as with Punkt, a number before a capital ends one
    ("1. apples 2. pears", 1),
    ("**Done.**", 2),  # what stays behind the end is one more, as with Punkt
    ("Line one\nline two\r\n\r\nline three", 1),
    ("今天天气很好。我很高兴。", 1),
    ("สวัสดี", 1),
    ("\x00. 👍! e\u0301.", 3),
    ("Vitamin C. The rest.", 2),
    ("She lives on Main St. with him.", 1),
    ("A co-op Inc. partner", 1),
    (". . .", 3),
]


@law_over(("text", "count"), COUNTS)
def test_sentences_are_counted(text, count):
    assert count_sentences(text) == count


def test_a_long_text_has_as_many_as_its_parts():
    assert count_sentences("Mr. Fox ran. " * 10_000) == 10_000
