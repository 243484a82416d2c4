"""Check of a multiple-choice answer: the chosen letter, by the clearest sign that the text has."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from typing import Annotated, Self

import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, RowFinding, gather_rows, register_check
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, text_column
from gradebook.rubrics.checks.answers.accepted import MOST_CHARACTERS, AcceptedSettings, accepted_answers
from gradebook.rubrics.checks.answers.numeric import boxed_text


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
        _judge_row(output, {index: (texts[index], letters[index]) for index in indices}, settings, reason)
        for output, indices, reason in zip(
            outputs, accepted.text_indices_by_row(), accepted.reasons.to_pylist(), strict=True
        )
    )


def _judge_row(
    output: str, answers: dict[int, tuple[str, str]], settings: ChoiceSettings, reason: str | None
) -> RowFinding:
    """Judge one row. answers: accepted texts by index, each with its letters. reason: why there are no answers."""
    accepted = sorted({letters for _, letters in answers.values() if len(letters) == 1})
    if not answers:
        return RowFinding(None, reason=reason)
    if not accepted:
        text = next(iter(answers.values()))[0]
        return RowFinding(None, reason=f"no choice in the reference {cut_text(text, EXCERPT_CHARACTERS)!r}")
    letters = choice_finder(settings.choices).find(output)
    if letters in accepted:
        return RowFinding(True)
    description = " and ".join(letters) if letters else f"none of {', '.join(settings.choices)}"
    return RowFinding(False, f"found {description}, expected {' or '.join(accepted)}")


ARTICLES = "AI"  # letters that are English words too
OPENING = r"[ \t*_`\"'“\u2018(\[{<$]{0,8}"
MARKS = r"[ \t*_`\"'”’)\]}>$]{0,8}"
CLOSING = r"[ \t*_`\"'”’)\]}>$.,、:\uff1a。]{0,8}"
END_OF_ENTRY = rf"{MARKS}(?:[.,、。]|\r?\n|\Z|\b(?:and|or)\b)"  # of a list: "A, B, C"
BEST = r"(?:correct|right|best|final)"
STATEMENT = re.compile(
    rf"\b(?i:answer|{BEST} (?:option|choice|letter|one))\b[^.:\uff1a=\n]{{0,60}}?(?:\b(?:is|was)\b|[:\uff1a=])"
    r"|\b(?i:I|we)(?i: would| will|['’]d|['’]ll)?(?i: choose| pick| select| go with)\b"
    r"|答案(?:是|为|為|選|选)?[:\uff1a]?|[选選](?:择|擇)?"
)
NOUN = rf"(?:\\(?:text|mathrm|mathbf)\{{{OPENING}|(?i:option|choice|letter|answer)\b{OPENING})?"
# Words that may follow a letter as a choice ("A because"); before other lower-case words it is an article ("A train").
CLAUSE = re.compile(r" (?:because|since|as|and|or|for|with|which|that|due|based|is|here|in|by|but|while|not|was)\b")
END_OF_LINE = re.compile(CLOSING + r"(?:\r?\n|\Z)")
QUESTION = re.compile(CLOSING + r"\?")
# Denials before a letter: "not B", "isn't the option (B)", "don't think that the answer is B". After it: "B is not", "B
# is wrong", "B can't be".
DENIAL = re.compile(
    r"(?:\b(?:not|neither|nor|never|cannot)|n['’]t|不是|并非|不[选選])"
    r"(?: (?:be|the|that|think|believe|say|is|either|correct|right|best|final|option|choice|letter|answer)\b)*+"
    rf"{OPENING}",
    re.IGNORECASE,
)
DENIED = re.compile(
    f"{CLOSING}+" + r"(?:(?:is|was|are|would|could|does|do)(?: not\b|n['’]t\b)|can(?: not|not|['’]t)\b"
    r"|(?:is|would be) (?:\w{1,20} )?(?:wrong|incorrect|false)\b)"
)


class _AnswerText:
    """Text with the positions at which it denies a letter, searched on first use: most texts do not need them."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _denial_ends(self) -> set[int]:
        return {denial.end() for denial in DENIAL.finditer(self.text)}

    def is_undenied(self, match: re.Match[str]) -> bool:
        """Whether the text does not deny the letter."""
        return match.start("letter") not in self._denial_ends and not DENIED.match(self.text, match.end("letter"))


class ChoiceFinder:
    """Finds the letters that a text chooses. choices: upper-case letters."""

    def __init__(self, choices: str) -> None:
        both = f"[{choices}{choices.lower()}]"
        upper = f"[{choices}]"
        self._after_statement = re.compile(rf"{OPENING}\n?{OPENING}{NOUN}(?P<letter>{both})(?![\w'’])")
        self._another = re.compile(
            rf"(?:{CLOSING}(?:/|&|\band\b|\bor\b|及|和|或)|{CLOSING}(?<=[,、])(?={OPENING}{upper}{END_OF_ENTRY}))"
            rf"{OPENING}{NOUN}(?P<letter>{upper})(?![\w'’])"
        )
        self._subject = re.compile(
            rf"(?<![\w'’])(?P<letter>{upper}){CLOSING}+(?:is|would be) (?:the )?(?:{BEST}|(?:\w{{1,20}} )?answer)\b"
        )
        self._alone = re.compile(rf"(?m)^{OPENING}{NOUN}(?P<letter>{both})(?!\w){CLOSING}\r?$")
        self._bold = re.compile(rf"(?:\*\*|__)\(?(?P<letter>{both})[).:]{{0,2}}(?:\*\*|__)")
        self._marked = re.compile(rf"{OPENING}(?P<letter>{both})[*_]{{0,2}}[).:\uff1a]")
        self._lone = re.compile(rf"(?<![\w'’.&+/-])(?P<letter>{upper})(?![\w'’&+/-])")

    def find(self, text: str) -> str:
        """Chosen letters, upper case and in order: one if the choice is clear, several if it is unclear, or none."""
        finders = (self._in_box, self._in_statement, self._on_a_line, self._in_bold, self._at_an_edge, self._anywhere)
        answer = _AnswerText(text)
        for find in finders:
            if letters := find(answer):
                return letters
        return ""

    def _in_box(self, answer: _AnswerText) -> str:
        boxed = boxed_text(answer.text)
        return "" if boxed is None else _distinct(self._alone.finditer(boxed.strip()))

    def _in_statement(self, answer: _AnswerText) -> str:
        """Letter in the last statement, since the answer may be corrected in the text."""
        candidates = (self._stated(answer.text), reversed([*self._subject.finditer(answer.text)]))
        last_of_each = [next(filter(answer.is_undenied, matches), None) for matches in candidates]
        last = max(filter(None, last_of_each), key=lambda match: match.start("letter"), default=None)
        return self._with_another(answer, last) if last else ""

    def _stated(self, text: str) -> Iterator[re.Match[str]]:
        """Statements from the last to the first, lazily: there may be very many, and one is enough."""
        for end in reversed([lead.end() for lead in STATEMENT.finditer(text)]):
            match = self._after_statement.match(text, end)
            if match and _is_certain(text, match) and not QUESTION.match(text, match.end("letter")):
                yield match

    def _with_another(self, answer: _AnswerText, match: re.Match[str]) -> str:
        another = self._another.match(answer.text, match.end("letter"))
        return _distinct(filter(None, (match, another)), answer.is_undenied)

    def _on_a_line(self, answer: _AnswerText) -> str:
        return _distinct(self._alone.finditer(answer.text))

    def _in_bold(self, answer: _AnswerText) -> str:
        return _distinct(self._bold.finditer(answer.text), answer.is_undenied)

    def _at_an_edge(self, answer: _AnswerText) -> str:
        """Letter at the start of the first or the last line: "B. Paris"."""
        stripped = answer.text.strip()
        matches = (self._marked.match(stripped), self._marked.match(stripped, stripped.rfind("\n") + 1))
        return _distinct(filter(None, matches))

    def _anywhere(self, answer: _AnswerText) -> str:
        return _distinct(
            self._lone.finditer(answer.text),
            lambda match: not _is_article(answer.text, match) and answer.is_undenied(match),
        )


@cache
def choice_finder(choices: str) -> ChoiceFinder:
    """Cached finder for these letters."""
    return ChoiceFinder(choices)


def _distinct(matches: Iterable[re.Match[str]], is_counted: Callable[[re.Match[str]], bool] | None = None) -> str:
    """Distinct letters, in order. counts: predicate for a match, not called again for a letter already found."""
    letters: set[str] = set()
    for match in matches:
        letter = match["letter"].upper()
        if letter not in letters and (is_counted is None or is_counted(match)):
            letters.add(letter)
    return "".join(sorted(letters))


def _is_certain(text: str, match: re.Match[str]) -> bool:
    """Whether a letter is not merely a word: upper case and no article, or in brackets, or at the end of its line."""
    start, end = match.span("letter")
    if text[start - 1] in "([" and text[end : end + 1] in (")", "]"):
        return True
    if match["letter"].islower():
        return END_OF_LINE.match(text, end) is not None
    return not _is_article(text, match)


def _is_article(text: str, match: re.Match[str]) -> bool:
    end = match.end("letter")
    is_before_word = text[end : end + 1] == " " and text[end + 1 : end + 2].islower()
    return match["letter"] in ARTICLES and is_before_word and CLAUSE.match(text, end) is None
