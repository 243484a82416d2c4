"""Check of a multiple-choice answer."""

from typing import Annotated, Self

import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.answers.accepted import MOST_CHARACTERS, AcceptedSettings, accepted_answers
from gradebook.rubrics.checks.answers.choice_letters import choice_finder


def _upper_and_distinct(choices: str) -> str:
    if len(set(choices.upper())) < len(choices):
        raise ValueError(f"found a letter twice in {choices!r}, expected each once")
    return choices.upper()


class ChoiceSettings(AcceptedSettings):
    """Letters to choose from."""

    choices: Annotated[str, Field(pattern=r"^[A-Za-z]{2,26}$"), AfterValidator(_upper_and_distinct)] = "ABCD"
    """letters to choose from"""

    @model_validator(mode="after")
    def _expected_are_choices(self) -> Self:
        for text in self.expected_texts:
            if len(choice_finder(self.choices).find(text)) != 1:
                raise ValueError(f"found {text!r} in expected, expected one of {', '.join(self.choices)}")
        return self


@register_check(
    "choice_letter",
    ChoiceSettings,
    columns=("output", "reference"),
    cost="rows",
    examples=(
        Example("Paris lies on the Seine. The answer is (B).", True, others={"reference": "B"}),
        Example("**C**", False, others={"reference": "B"}),
        Example("It could be A or B.", False, {"expected": "B"}),
        Example("The answer is (B).", None, others={"reference": "Paris"}),
    ),
)
def choice_letter(shard: pa.Table, settings: ChoiceSettings) -> CheckVerdicts:
    r"""The letter that the output chooses is the accepted one. No letter, or more than one, is not a choice and fails.

    The first of these places with a letter decides:

    1. the last `\boxed{B}`;
    2. the last statement: "the answer is (B)", "Answer: **B**", "the correct option is B", "I choose B",
       "B is correct", "答案是B";
    3. lines that consist of a letter: "B", "(b)", "**B**.";
    4. letters in bold: "so **B** it is";
    5. the start of the first and of the last line: "B. Paris", "b) Paris";
    6. upper-case letters on their own, anywhere.

    If that place has several different letters, the choice is unclear and the check fails. A denied letter ("not B",
    "isn't B", "B is wrong") is ignored in 2, 4 and 6. A and I before a word in lower case count as English words
    ("A train"), except before "because", "and", "is" and similar words. This is a heuristic: a letter that is only
    discussed may be taken for the choice if nothing clearer is found. The reference is read in the same way. A row
    whose reference has no letter, or more than 100,000 characters, stays unscored.
    """
    outputs = text_column(shard, "output").to_pylist()
    accepted = accepted_answers(shard, settings, MOST_CHARACTERS)
    find = choice_finder(settings.choices).find
    texts = accepted.texts.to_pylist()
    letters = [find(text) for text in texts]
    return gather_rows(
        _judge_row(output, {place: (texts[place], letters[place]) for place in places}, settings, reason)
        for output, places, reason in zip(outputs, accepted.places_by_row(), accepted.reasons.to_pylist(), strict=True)
    )


def _judge_row(
    output: str, answers: dict[int, tuple[str, str]], settings: ChoiceSettings, reason: str | None
) -> RowFinding:
    """Judge one row. answers: by place, each accepted text and the letters found in it. reason: why there are none."""
    accepted = sorted({letters for _, letters in answers.values() if len(letters) == 1})
    if not answers:
        return RowFinding(None, reason=reason)
    if not accepted:
        text = next(iter(answers.values()))[0]
        return RowFinding(None, reason=f"no choice in the reference {cut_text(text, EXCERPT_CHARACTERS)!r}")
    found = choice_finder(settings.choices).find(output)
    if found in accepted:
        return RowFinding(True)
    shown = " and ".join(found) if found else f"none of {', '.join(settings.choices)}"
    return RowFinding(False, f"found {shown}, expected {' or '.join(accepted)}")
