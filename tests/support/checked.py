"""What a check says of one output, for the tests of checks."""

import pyarrow as pa

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check


def judge(name: str, output: str, **settings: object) -> tuple[bool | None, str | None]:
    """Whether the output passes the check, and the evidence."""
    check = find_check(name)
    found = check.function(pa.table({"output": [output]}), read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


def has_count(name: str, output: str, count: int, **settings: object) -> bool:
    """Whether a check that counts finds exactly so many."""
    return judge(name, output, min=count, max=count, **settings)[0] is True
