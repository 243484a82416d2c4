"""Untrusted text: escaped for a judge, and folded for the comparison of quotes."""

import json
import re
import unicodedata
from typing import Any

# Marks that models' chat templates read as the end of a turn or as another turn, even inside a text: <|im_end|>, </s>,
# <start_of_turn>, [INST]. A judge that sees its turn end would take the following text for instructions.
_NAMES = (
    "s|bos|eos|pad|unk|mask|cls|sep|sop|eop|im|img|image|audio|video|think|thinking|system|sys|user|assistant|human|model|"
    "inst|gmask|gMASK|smask|sMASK|unused[0-9]{1,4}"
)
# Names in small letters and in capitals, spelt out: a case-insensitive pattern takes ten times as long.
_NAME = rf"(?:{_NAMES}|{_NAMES.upper()}|[A-Za-z]{{1,20}}_[A-Za-z0-9_]{{1,40}})"
_MARK = re.compile(rf"<(?=[|\uff5c]|<?/?[A-Za-z])(?=[|\uff5c]|<?/?{_NAME}>)|\[(?=/?[A-Za-z])(?=/?{_NAME}\])")
# Line breaks other than \n, and characters that reorder or hide text: directional embeddings, overrides and isolates,
# tags. Joiners and variation selectors stay: Persian, Hindi and emoji use them.
_TRICK = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e0fff]")
# Unicode's Default_Ignorable_Code_Point: characters without width.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)

# Forms of one mark that models write for one another: quotation marks, apostrophes and primes; hyphens and dashes.
_SAME_MARKS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u2039\u203a", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
# Other blanks after NFKC, which leaves the space for all similar characters.
_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"


def shown_json(shown: Any) -> str:
    """Values as JSON in which no text can close anything: `json.loads` restores every text exactly.

    Quotes and line feeds are escaped as in JSON, and so are the marks of chat templates, other line breaks, and
    characters that hide or reorder text, which makes them visible to a judge.
    """
    return inert_text(json.dumps(shown, ensure_ascii=False))


def inert_text(text: str) -> str:
    r"""Write the marks of chat templates and deceptive characters of a text as JSON's `\u` escapes."""
    if "<" in text or "[" in text:
        text = _MARK.sub(lambda found: _escaped(found[0]), text)
    if not text.isascii() or "\x7f" in text:
        text = _TRICK.sub(lambda found: _escaped(found[0]), text)
    return text


def fold_text(text: str) -> str:
    """Fold a text for the comparison of quotes: no invisible characters, NFKC, one form of quotation marks and of
    dashes, folded whitespace, unchanged letters.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text).translate(_SAME_MARKS))
    for blank in _BLANKS:
        text = text.replace(blank, " ")
    while "  " in text:  # halves each run
        text = text.replace("  ", " ")
    return text.strip(" ")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
