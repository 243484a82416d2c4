"""Text of strangers: as a judge is shown it, and as a quote is held against it."""

import json
import re
import unicodedata
from typing import Any

# What the chat templates of models read as the end of a turn, or as another's turn, even inside a text: <|im_end|>,
# </s>, <start_of_turn>, [INST]. A judge that is told its turn ended there would take what follows for an order.
_NAMES = (
    "s|bos|eos|pad|unk|mask|cls|sep|sop|eop|im|img|image|audio|video|think|thinking|system|sys|user|assistant|human|model|"
    "inst|gmask|gMASK|smask|sMASK|unused[0-9]{1,4}"
)
# Names in small letters or capitals, spelt out: a pattern that folds case takes ten times as long.
_NAME = rf"(?:{_NAMES}|{_NAMES.upper()}|[A-Za-z]{{1,20}}_[A-Za-z0-9_]{{1,40}})"
_MARK = re.compile(rf"<(?=[|\uff5c]|<?/?[A-Za-z])(?=[|\uff5c]|<?/?{_NAME}>)|\[(?=/?[A-Za-z])(?=/?{_NAME}\])")
# Breaks that are no \n, and what reorders or hides text: embeddings, overrides and isolates of direction, tags. Joiners
# and variation selectors stay: Persian, Hindi and emoji are written with them.
_TRICK = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e0fff]")
# Unicode's Default_Ignorable_Code_Point: what takes no place on a page.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)

# What else is a blank after NFKC, which leaves the space of all that look like one.
_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"


def shown_json(shown: Any) -> str:
    """Values as JSON in which no text can close anything: `json.loads` gives back every text exactly.

    Quotes and line feeds are escaped as JSON has it, and so are the marks of chat templates, other breaks of lines,
    and what hides or reorders text, which a judge so gets to see.
    """
    return inert_text(json.dumps(shown, ensure_ascii=False))


def inert_text(text: str) -> str:
    r"""A text with the marks of chat templates and the characters that trick the eye written as JSON's `\u` escapes."""
    if "<" in text or "[" in text:
        text = _MARK.sub(lambda found: _escaped(found[0]), text)
    if not text.isascii() or "\x7f" in text:
        text = _TRICK.sub(lambda found: _escaped(found[0]), text)
    return text


def fold_text(text: str) -> str:
    """A text as quotes are compared: without invisible characters, in NFKC, whitespace folded, letters as they are."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    for blank in _BLANKS:
        text = text.replace(blank, " ")
    while "  " in text:  # halves each run
        text = text.replace("  ", " ")
    return text.strip(" ")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
