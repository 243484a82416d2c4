"""Descriptions as words, so that two of them can be compared. Words of English are dropped and stemmed, no others."""

import re

MOST_READ = 2_000  # characters of a text that the rules of wording look at
STEM_LETTERS = 5  # "relevant" and "relevance" begin alike

WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
QUOTE = (
    r"(?:\"[^\"]{1,200}\"|“[^”]{1,200}”|«[^»]{1,200}»|"
    r"(?<!\w)['\u2018][^'\u2018\u2019]{1,200}['\u2019](?!\w))"
)
QUOTED = re.compile(QUOTE)
# Few, as "content" and "context", or "form" and "formality", are not to become one: accura-cy, relevan-t, fact-ual.
_ENDING = re.compile(r"(?<=\w{4})(?:ual(?:ly)?|ness|ly|(?<=[ae]n)(?:c[ey]|t)(?:ly)?|(?<=a)(?:cy|te(?:ly)?))$")
_GRAMMAR = (
    "a an the is are was were be been being do does did has have had of to in on at by for from with as it its this "
    "that these those there and or but if then than so such which who whom what when where how why can could should "
    "would will may might must any each every all some his her their them they he she you your we our"
)
STOP_WORDS = frozenset(_GRAMMAR.split())
VAGUE = re.compile(
    r"\b(?:good|great|excellent|fine|nice|decent|ok|okay|bad|poor|average|perfect|solid|strong|weak|(?:in)?adequate|"
    r"(?:in)?appropriate|(?:un)?reasonabl[ey]|(?:un)?acceptabl[ey]|(?:un)?satisfactory|(?:in)?sufficient|(?:im)?proper|"
    r"(?:un)?suitabl[ey]|feels?|seems?|(?:high|low|top)[ -]quality)(?:ly)?\b"
)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, in their order."""
    return tuple(WORD.findall(text.casefold()))


def content_words(text: str) -> tuple[str, ...]:
    """The words that carry a meaning, without the endings 's and s. "not" and "no" are among them."""
    return tuple(_stem(word) for word in words_of(text[:MOST_READ]) if word not in STOP_WORDS)


def roots_of(text: str) -> frozenset[str]:
    """The roots of the words that carry a meaning, in no order: "Factual accuracy" has those of "accurate facts"."""
    return frozenset(_ENDING.sub("", word) for word in content_words(text))


def is_same_root(word: str, other: str) -> bool:
    """Whether two words begin alike: "accuracy" and "accurate"."""
    return word == other or (
        len(min(word, other, key=len)) >= STEM_LETTERS and word[:STEM_LETTERS] == other[:STEM_LETTERS]
    )


def without_quotes(text: str) -> str:
    """The beginning of a text in lower case, a blank in the place of each quoted part."""
    return QUOTED.sub(" ", text[:MOST_READ]).casefold()


def shorten(text: str, limit: int = 60) -> str:
    """A text in quotes, cut to a readable length."""
    flat = " ".join(text[: 4 * limit].split())
    return repr(flat if len(flat) <= limit else f"{flat[: limit - 3]}...")


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
