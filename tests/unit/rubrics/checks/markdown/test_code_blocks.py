import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.checked import has_count, judge
from tests.support.law_over import law_over


@law_over(
    ("output", "count"),
    [
        ("", 0),
        (" \n\n", 0),
        ("```\na\n```", 1),
        ("```", 1),
        ("`a`, ```b```", 0),
        ("```a```\ntext", 0),
        ("~~~\n```\n~~~", 1),
        ("````md\n```py\nx\n```\n````\n\n```js\n```", 2),
        ("- ```py\n  x\n  ```\nafter", 1),
        ("> ```\n> x\n> ```", 1),
        ("```\n    ```\n```", 1),  # four columns further in does not close
        ("\r\n```py\r\nx\r\n```\r\n", 1),
        ("    indented", 0),
        ("``\na\n``", 0),
        ("\x00```", 0),
    ],
)
def test_code_blocks_are_fenced(output, count):
    assert has_count("count_code_blocks", output, count)


@law_over("words", ["python", "Python", " python title=a.py", "{.python}", "python, echo=TRUE", "{python}"])
def test_the_language_is_the_first_word_behind_the_fence(words):
    assert has_count("count_code_blocks", f"```{words}\n```\n```\n```\n```python3\n```", 1, language="PYTHON")


def test_a_miss_names_the_language():
    assert judge("count_code_blocks", "```\n```", min=1, language="sql")[1] == "0 sql code blocks, at least 1 required"


@law_over(
    ("output", "line"),
    [("", None), ("text", None), ("```\n```", None), ("a\r\n```\r\n", 2), ("```\n```\n~~~\n```", 3), ("````\n```", 1)],
)
def test_a_fence_that_stays_open_is_named_by_its_line(output, line):
    expected = (True, None) if line is None else (False, f"the fence opened in line {line} is not closed")
    assert judge("has_closed_fences", output) == expected


def plain_pairs(lines: list[str]) -> int:
    """The blocks among lines that are each a bare fence or text, read one by one."""
    count, opened = 0, ""
    for line in lines:
        if opened and line.startswith(opened):
            opened = ""
        elif not opened and line:
            count, opened = count + 1, line
    return count


@given(st.lists(st.sampled_from(["```", "````", "~~~", "~~~~", ""]), max_size=12))
def test_blocks_agree_with_a_plain_reading(lines):
    assert has_count("count_code_blocks", "\n".join(lines), plain_pairs(lines))


@law_over(
    ("sign", "count"),
    # 250,000 fences pair up; of two widths, "````" closes each "```" and none closes the last
    [("```\n", 125_000), ("```\n````\n", 111_112), ("`", 1), ("> ", 0), ("\n", 0), (" ", 0)],
)
def test_a_megabyte_of_fences_is_read(sign, count):
    assert has_count("count_code_blocks", sign * -(-1_000_000 // len(sign)), count)


@pytest.mark.parametrize(
    "given", [{"min": 1, "language": "a b"}, {"min": 1, "language": ""}, {"language": "py"}], ids=str
)
def test_settings_that_make_no_sense_are_refused(given):
    with pytest.raises(ValidationError):
        read_settings(find_check("count_code_blocks"), given)
