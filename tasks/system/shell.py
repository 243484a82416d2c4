"""Commands as lines to paste into a shell."""

import shlex
from collections.abc import Iterable


def shell_line(words: Iterable[str]) -> str:
    """Words quoted for a shell; a word with single quotes, such as a query, gets double quotes."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    is_plain = "'" in word and not any(mark in word for mark in '"$`\\!')
    return f'"{word}"' if is_plain else shlex.quote(word)
