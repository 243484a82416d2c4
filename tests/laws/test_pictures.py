"""Pictures of the README and the docs: each is made by `make pictures`, exists and is small."""

import re
from pathlib import Path

from tests.support.pictures import FOLDER, MOST_BYTES, PICTURES

ROOT = Path(__file__).parents[2]
_PICTURE = re.compile(r"!\[[^\]]+\]\((\S*images/[^)]+)\)")


def test_each_picture_of_the_docs_is_made_by_the_script_and_small():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.parent / address).resolve()
        for page in pages
        for address in _PICTURE.findall(page.read_text(encoding="utf-8"))
    }
    assert named == {FOLDER / f"{name}.png" for name in PICTURES} == set(FOLDER.glob("*"))
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in named)
    assert {picture.name: size for picture in named if (size := picture.stat().st_size) > MOST_BYTES} == {}
