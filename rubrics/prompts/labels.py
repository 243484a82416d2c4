"""Opaque labels for the levels shown to a judge, and their assignment to levels.

The author of an output may know the labels. Their assignment is drawn anew for each request, so naming one is a guess.
They are a small fixed set, so that all criteria with the same number of levels share one JSON schema of a reply: the
schema is part of what endpoints cache.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

from gradebook.rubrics.prompts.untrusted_text import fold_text

# Four consonants each: no words, no well-known abbreviations, no two that differ only in one letter or its order.
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
USUAL_CODE_COUNT = 24  # the first ones, for requests that need at most half of them
LETTERS = tuple("BCDEFGHJKLMNOPQRSTUVWXYZAI")  # each is one token everywhere; A and I are words, so they come last

_LONE_LETTER = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


def draw_labels(count: int, text: str, *, is_letters: bool = False) -> tuple[str, ...]:
    """First labels that do not occur in a text; if too few are left, labels that do occur fill the gap, in order.

    A code occurs in any case, and with invisible characters between its letters; a letter occurs if it is separate.
    Raises `ValueError` if there are not enough labels.
    """
    pool = LETTERS if is_letters else CODES[:USUAL_CODE_COUNT] if 2 * count <= USUAL_CODE_COUNT else CODES
    if count > len(pool):
        raise ValueError(f"found {count} levels to label, expected at most {len(pool)}")
    written = fold_text(text).upper()
    lone = set(_LONE_LETTER.findall(written)) if is_letters else None
    free: list[str] = []
    for label in pool:
        if len(free) == count:
            break
        if label not in (written if lone is None else lone):
            free.append(label)
    return tuple([*free, *_spare(pool, free)][:count])


def _spare(pool: Sequence[str], free: Sequence[str]) -> Iterator[str]:
    return (label for label in pool if label not in free)


def shuffle_labels(labels: Sequence[str], key: str) -> list[str]:
    """Order the labels by a key: every order is equally likely."""
    return sorted(labels, key=lambda label: hashlib.blake2b(f"{key}/{label}".encode(), digest_size=8).digest())
