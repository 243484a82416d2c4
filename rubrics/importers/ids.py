"""Ids from foreign names: readable, with gradebook's characters, distinct within a list; and versions."""

import re
from collections import Counter
from collections.abc import Iterable

from gradebook.rubrics.model.levels import LEVEL_ID_PATTERN
from gradebook.rubrics.model.rubric import ID_PATTERN, VERSION_PATTERN

LONGEST_FROM_WORDS = 48  # characters of an id made of words
LONGEST_NUMBERED = 57  # characters; leaves room for a number at the end
IDENTIFIER = re.compile(ID_PATTERN)
LEVEL_ID = re.compile(LEVEL_ID_PATTERN)

_NO_WORD = re.compile(r"[^a-z0-9]+")


def identifier(text: str, fallback: str = "criterion", fitting: re.Pattern[str] = IDENTIFIER) -> str:
    """The text if it is a valid id, else an id made of its first words. fitting: pattern of valid ids.

    "Step correctness (1-5)" -> step_correctness_1_5; "7 days" -> criterion_7_days.
    """
    if fitting.fullmatch(text):
        return text
    words = _NO_WORD.sub("_", text.lower()).strip("_") or fallback
    words = words if words[0].isalpha() else f"{fallback}_{words}"
    cut = words[: LONGEST_FROM_WORDS + 1].rpartition("_")[0] or words[:LONGEST_FROM_WORDS]
    return words if len(words) <= LONGEST_FROM_WORDS else cut


class DistinctIds:
    """Distinct ids of one list; repeated names take constant time each."""

    def __init__(
        self,
        fallback: str = "criterion",
        fitting: re.Pattern[str] = IDENTIFIER,
        taken: Iterable[str] = (),
        mark: str = "_",
    ) -> None:
        """fitting: pattern of names to leave unchanged; mark: separator before a number."""
        self._fallback, self._fitting, self._mark = fallback, fitting, mark
        self._counts = Counter(set(taken))

    def take(self, text: str) -> str:
        """Id for the name, with a number if it is taken: tone, tone_2."""
        name = numbered = identifier(text, self._fallback, self._fitting)
        while self._counts[numbered]:
            self._counts[name] += 1
            numbered = f"{name[:LONGEST_NUMBERED]}{self._mark}{self._counts[name]}"
        self._counts[numbered] = 1
        return numbered


def may_derive_from(made_id: str, name: str) -> bool:
    """Whether `DistinctIds` may have made this id from that name."""
    first = identifier(name)
    return made_id == first or re.fullmatch(f"{re.escape(first[:LONGEST_NUMBERED])}_[0-9]+", made_id) is not None


def complete_version(version: str) -> str | None:
    """Version of three numbers from a version of two or three: 1.0 becomes 1.0.0; None for anything else."""
    three_numbers = f"{version}.0" if version.count(".") == 1 else version
    return three_numbers if re.fullmatch(VERSION_PATTERN, three_numbers) else None
