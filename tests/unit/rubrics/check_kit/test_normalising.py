"""Words of texts: at the end of Arrow's buffers too."""

import re
from pathlib import Path

import pyarrow as pa

import gradebook.rubrics
from gradebook.rubrics.check_kit.normalising import split_whitespace
from tests.support.law_over import law_over

END = "a\u2009中 é \n"


@law_over("size", range(56, 72))
def test_words_are_those_of_python_wherever_a_buffer_ends(size):
    text = "x" * (size - len(END.encode())) + END
    # What lies behind a buffer varies, and with it what Arrow's own split gives: 300 tries found it each time.
    assert {tuple(split_whitespace(pa.array([text]))[0].as_py()) for _ in range(300)} == {tuple(text.split())}


def test_nothing_splits_at_whitespace_untrimmed():
    folder = Path(gradebook.rubrics.__path__[0])
    calls = {
        path.name for path in folder.rglob("*.py") if re.search(r"\bpc\.utf8_split_whitespace\(", path.read_text())
    }
    assert calls == {"normalising.py"}
