"""One pattern for many phrases, in the syntax of Python's `re`, about as fast as a pattern for a few."""

import re
from collections.abc import Sequence

DEEPEST = 12  # nested groups: `re` compiles them by recursion
GAP = r"\s+"
MARKS = "'’"
APOSTROPHES = f"[{MARKS}]"

Tokens = tuple[str, ...]


def any_phrase(phrases: Sequence[str], case_sensitive: bool) -> str:
    """Pattern that finds any of the phrases, the longest first.

    `re` tries the branches of an alternative one by one. So a common start of several phrases is written once, and a
    lookahead at the first character rejects most places of a text.
    """
    tokens = {tuple(_tokens(phrase if case_sensitive else _lower(phrase))) for phrase in phrases}
    firsts = "".join(sorted({MARKS if phrase[0] == APOSTROPHES else phrase[0] for phrase in tokens}))
    return f"(?=[{firsts}]){_branch(sorted(tokens, key=lambda phrase: (-len(phrase), phrase)), DEEPEST)}"


def phrase_pattern(phrase: str, whitespace: str) -> str:
    """Pattern, in RE2's syntax, that finds a phrase with any apostrophes, and with whitespace between its words.

    whitespace: character class without brackets; RE2's own is ASCII only.
    """
    return "".join(f"[{whitespace}]+" if token == GAP else token for token in _tokens(phrase))


def _tokens(phrase: str) -> list[str]:
    """Pattern for each character of a phrase and for each gap between its words."""
    words = [[APOSTROPHES if sign in MARKS else re.escape(sign) for sign in word] for word in phrase.split()]
    return [token for place, word in enumerate(words) for token in ([GAP] * (place > 0) + word)]


def _lower(phrase: str) -> str:
    """Lower-case phrase, except for letters whose lower case is two characters: `re` does not match those."""
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in phrase)


def _branch(endings: Sequence[Tokens], depth: int) -> str:
    """Pattern for any of these endings, ordered from longest to shortest."""
    if len(endings) == 1 or depth == 0:
        return f"(?:{'|'.join(''.join(ending) for ending in endings)})"
    by_first: dict[str, list[Tokens]] = {}
    for ending in endings:
        by_first.setdefault(ending[0] if ending else "", []).append(ending)
    branches = [_continue(alike, depth) for first, alike in by_first.items() if first]
    return f"(?:{'|'.join([*branches, ''] if '' in by_first else branches)})"


def _continue(endings: Sequence[Tokens], depth: int) -> str:
    """Common start of the endings, followed by a pattern for the rest."""
    shared = next(
        (place for place, tokens in enumerate(zip(*endings, strict=False)) if len(set(tokens)) > 1),
        min(map(len, endings)),
    )
    if len(endings) == 1:
        return "".join(endings[0])
    return "".join(endings[0][:shared]) + _branch([ending[shared:] for ending in endings], depth - 1)
