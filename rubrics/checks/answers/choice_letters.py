"""Finding the letter that an answer to a multiple-choice question chooses, from the clearest to the faintest sign."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property

from gradebook.rubrics.checks.answers.numerals import boxed_text

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


class _Reading:
    """Text with the places where it denies a letter. Found on first use, as most texts do not need them."""

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
        """Chosen letters, upper case and in order: one if the choice is clear, several if it is not, empty if there is
        none.
        """
        rungs = (self._in_box, self._in_statement, self._on_a_line, self._in_bold, self._at_an_edge, self._anywhere)
        reading = _Reading(text)
        for rung in rungs:
            if letters := rung(reading):
                return letters
        return ""

    def _in_box(self, reading: _Reading) -> str:
        boxed = boxed_text(reading.text)
        return "" if boxed is None else _distinct(self._alone.finditer(boxed.strip()))

    def _in_statement(self, reading: _Reading) -> str:
        """Letter in the last statement, since the answer may be corrected in the text."""
        both = (self._stated(reading.text), reversed([*self._subject.finditer(reading.text)]))
        last_of_each = [next(filter(reading.is_undenied, matches), None) for matches in both]
        last = max(filter(None, last_of_each), key=lambda match: match.start("letter"), default=None)
        return self._with_another(reading, last) if last else ""

    def _stated(self, text: str) -> Iterator[re.Match[str]]:
        """Statements from the last to the first, lazily: there may be very many, and one is enough."""
        for end in reversed([lead.end() for lead in STATEMENT.finditer(text)]):
            match = self._after_statement.match(text, end)
            if match and _is_certain(text, match) and not QUESTION.match(text, match.end("letter")):
                yield match

    def _with_another(self, reading: _Reading, match: re.Match[str]) -> str:
        another = self._another.match(reading.text, match.end("letter"))
        return _distinct(filter(None, (match, another)), reading.is_undenied)

    def _on_a_line(self, reading: _Reading) -> str:
        return _distinct(self._alone.finditer(reading.text))

    def _in_bold(self, reading: _Reading) -> str:
        return _distinct(self._bold.finditer(reading.text), reading.is_undenied)

    def _at_an_edge(self, reading: _Reading) -> str:
        """Letter at the start of the first or the last line: "B. Paris"."""
        stripped = reading.text.strip()
        matches = (self._marked.match(stripped), self._marked.match(stripped, stripped.rfind("\n") + 1))
        return _distinct(filter(None, matches))

    def _anywhere(self, reading: _Reading) -> str:
        return _distinct(
            self._lone.finditer(reading.text),
            lambda match: not _is_article(reading.text, match) and reading.is_undenied(match),
        )


@cache
def choice_finder(choices: str) -> ChoiceFinder:
    """Cached finder for these letters."""
    return ChoiceFinder(choices)


def _distinct(matches: Iterable[re.Match[str]], counts: Callable[[re.Match[str]], bool] | None = None) -> str:
    """Distinct letters, in order. counts: predicate for a match, not called again for a letter already found."""
    letters: set[str] = set()
    for match in matches:
        letter = match["letter"].upper()
        if letter not in letters and (counts is None or counts(match)):
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
