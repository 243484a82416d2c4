"""Text of prompts: versioned files split at their marks, untrusted text escaped, opaque labels of levels.

Untrusted text is escaped for a judge, and folded for the comparison of quotes.

Levels are shown to a judge under opaque labels. The author of an output may know the labels. Their assignment
is drawn anew for each request, so naming one is a guess. Labels are a small fixed set, so that all criteria with the
same number of levels share one JSON schema of a reply: the schema is part of what endpoints cache.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradebook.rubrics.model.json_values import digest_of

_FOLDER = Path(__file__).parent / "texts"
_SECTION_MARK = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)


@cache
def read_sections(name: str) -> Mapping[str, str]:
    """Sections of a prompt file by their marks; the text before the first mark is `system`."""
    system, *marked = _SECTION_MARK.split(_path_of(name).read_text("utf-8"))
    texts = {"system": system} | dict(zip(marked[::2], marked[1::2], strict=True))
    return MappingProxyType({mark: text.strip() for mark, text in texts.items()})


@cache
def file_digest(name: str) -> str:
    """Digest of a prompt file, 32 hex digits."""
    return digest_of(_path_of(name).read_bytes())


def _path_of(name: str) -> Path:
    return _FOLDER / f"{name}.txt"


# Marks that models' chat templates read as the end of a turn or as another turn, even inside a text: <|im_end|>, </s>,
# <start_of_turn>, [INST]. A judge that sees its turn end would take the following text for instructions.
_NAMES = (
    "s|bos|eos|pad|unk|mask|cls|sep|sop|eop|im|img|image|audio|video|think|thinking|system|sys|user|assistant|human|model|"
    "inst|gmask|gMASK|smask|sMASK|unused[0-9]{1,4}"
)
# Names in lower and in upper case, spelt out: a case-insensitive pattern takes ten times as long.
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

# Variants of a mark that models interchange: quotation marks, apostrophes and primes; hyphens and dashes.
_SAME_MARKS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u2039\u203a", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
# Blanks that remain after NFKC, which replaces most blanks by a space.
_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"


def shown_json(shown: Any) -> str:
    """Values as JSON whose texts can't close a delimiter; `json.loads` restores every text exactly.

    Quotes and line feeds are escaped as in JSON, and so are the marks of chat templates, other line breaks, and
    characters that hide or reorder text; so a judge sees them.
    """
    return inert_text(json.dumps(shown, ensure_ascii=False))


def inert_text(text: str) -> str:
    r"""Write the marks of chat templates and deceptive characters of a text as JSON's `\u` escapes."""
    if "<" in text or "[" in text:
        text = _MARK.sub(lambda match: _escaped(match[0]), text)
    if not text.isascii() or "\x7f" in text:
        text = _TRICK.sub(lambda match: _escaped(match[0]), text)
    return text


def fold_text(text: str) -> str:
    """Fold a text for the comparison of quotes: no invisible characters, NFKC, one form of quotation marks and of
    dashes, folded whitespace, unchanged letters.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text).translate(_SAME_MARKS))
    for blank in _BLANKS:
        text = text.replace(blank, " ")
    while "  " in text:  # each pass halves the runs of blanks
        text = text.replace("  ", " ")
    return text.strip(" ")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


# Codes of four consonants: no words or known abbreviations; two codes differ in more than a letter or its position.
_CODES = """
WMXP TFJH MRHN QCWF CVDF LRJS VPQL MHZF HVKT ZFBN SJDN NKVP LMWN SVGP JPMK GLRB
MGFK BFGJ NQRM XRSF XCNM ZMQC VRMJ RVFM LQVW QWZD LBJM JHCZ FSDC CTXL TNMX QPFN
XZRH WJRF RLTJ MDLQ HRPG TVRM KLRW NPJH HMXR KSVJ TZWX WVZS VPRB QKPN RPFC SGZH
RTLW LCTM DTNL RHNK LXBT VFDX XTBJ GNBR BHWD LKZS BMDK PFDC XNWM PGBF KHJM SFMN
VPXK JVFH FSWK LCVZ QSDZ RMLP TFBW HSML GHKT TKXB CRWK WTSP LSMR XGMB CGNK XMPR
CLRT RHDV TMZB TQZF DVTK BLKX VCMB WNPJ NXBF DZQN TQSX SBWF WSJH KJHW CTKN TPJG
GQNV WRSM TFDV JKBD HDJG ZLMW SZPN RDNH QLRH VWRH ZJFP VTCR WLFM GLBT SWKJ VQDL
DLQP JFGK GXWL XLRQ TRGX SGJT GLJQ CMVR PQNC TBGJ NKMT MBNQ JZLF LHGR FMTQ KSGN
"""
CODES = tuple(_CODES.split())
USUAL_CODE_COUNT = 24  # only the first 24 codes are used for requests that need at most half of them
LETTERS = tuple("BCDEFGHJKLMNOPQRSTUVWXYZAI")  # each is one token everywhere; A and I are words, so they come last

_LONE_LETTER = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


def draw_labels(count: int, text: str, *, is_letters: bool = False) -> tuple[str, ...]:
    """First labels that do not occur in a text; if these are too few, then labels that do occur, in order.

    Codes are searched without regard to case and invisible characters; a letter only as a separate word.
    Raises `ValueError` if there are not enough labels.
    """
    pool = LETTERS if is_letters else CODES[:USUAL_CODE_COUNT] if 2 * count <= USUAL_CODE_COUNT else CODES
    if count > len(pool):
        raise ValueError(f"found {count} levels to label, expected at most {len(pool)}")
    folded_text = fold_text(text).upper()
    lone = set(_LONE_LETTER.findall(folded_text)) if is_letters else None
    unused: list[str] = []
    for label in pool:
        if len(unused) == count:
            break
        if label not in (folded_text if lone is None else lone):
            unused.append(label)
    return tuple([*unused, *(label for label in pool if label not in unused)][:count])


def shuffle_labels(labels: Sequence[str], key: str) -> list[str]:
    """Permutation of the labels drawn by a key; every order is equally likely."""
    return sorted(labels, key=lambda label: hashlib.blake2b(f"{key}/{label}".encode(), digest_size=8).digest())
