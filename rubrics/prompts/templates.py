"""Prompt files of the judge: versioned texts, split at their marks once."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from gradebook.rubrics.model.digests import digest_of

_FOLDER = Path(__file__).parent / "texts"
_MARK = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)


@cache
def read_sections(name: str) -> Mapping[str, str]:
    """Sections of a prompt file by their marks; the text before the first mark is `system`."""
    system, *marked = _MARK.split(_path_of(name).read_text("utf-8"))
    texts = {"system": system} | dict(zip(marked[::2], marked[1::2], strict=True))
    return MappingProxyType({mark: text.strip() for mark, text in texts.items()})


@cache
def file_digest(name: str) -> str:
    """Digest of a prompt file, 32 hex digits."""
    return digest_of(_path_of(name).read_bytes())


def _path_of(name: str) -> Path:
    return _FOLDER / f"{name}.txt"
