"""Pictures and sounds that cases name: read from the dataset's folders alone."""

import os
from pathlib import Path

import pytest

from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from tests.support.media_samples import SOUND, png

LARGE = 100_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of outputs with a picture and a sound, and a secret beside it."""
    place = tmp_path / "outputs"
    (place / "deep").mkdir(parents=True)
    (place / "deep/cat.png").write_bytes(png())
    (place / "say.wav").write_bytes(SOUND)
    (place / "empty.png").touch()
    (place / "page.png").write_bytes(b"<html><body>sk-secret</body></html>")
    (place / "drawn.png").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    (place / "flat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "secret.png").write_bytes(png())
    (place / "out.png").symlink_to(tmp_path / "secret.png")
    (place / "up").symlink_to(tmp_path)
    (place / "round.png").symlink_to("round.png")
    (place / "in.png").symlink_to("deep/cat.png")
    os.mkfifo(place / "pipe.png")
    with (place / "large.png").open("wb") as file:
        file.write(png())
        file.truncate(LARGE)
    return place


def show(folder, name):
    return MediaFiles((folder,)).show(Case("Draw it.", f"file:{name}"))


@pytest.mark.parametrize("name", ["deep/cat.png", "./deep//cat.png", "say.wav", "in.png", "flat.png"])
def test_a_file_below_the_folder_is_read(folder, name):
    case = show(folder, name)
    assert case.media_fault is None
    assert len(case.media) == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((path, "found the path ") for path in ("../secret.png", "deep/../../secret.png", "/etc/passwd", "..")),
        ("out.png", "found a link out of the folder of the outputs: 'out.png'"),
        ("up/secret.png", "found a link out of the folder of the outputs: 'up/secret.png'"),
        ("round.png", "can't be read: "),
        ("gone.png", "no such file: 'gone.png'"),
        ("deep", "no such file: 'deep'"),
        ("pipe.png", "no such file: 'pipe.png'"),
        ("a" * 300, "can't be read: File name too long"),
        ("a/" * 600, "found a path of 1200 characters, at most 1000"),
        ("empty.png", "found an empty file, expected a PNG, JPEG, GIF or WebP image"),
        ("page.png", "found HTML, expected a PNG, JPEG, GIF or WebP image"),
        ("drawn.png", "found SVG, expected a PNG, JPEG, GIF or WebP image"),
        ("large.png", "too large: found more than 20000000 bytes, expected at most that many"),
    ],
)
def test_another_file_is_refused_and_named(folder, name, fault):
    case = show(folder, name)
    shown = name if len(name) <= 100 else f"{name[:100]}..."
    assert case.media == ()
    assert case.media_fault.startswith(f"unreadable_media: {shown}: {fault}")


def test_what_a_refused_file_holds_is_told_to_nobody(folder):
    assert "secret" not in repr(show(folder, "page.png"))


def test_the_first_folder_that_has_the_file_counts(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "say.wav").write_bytes(b"text")
    assert MediaFiles((other, folder)).show(Case(None, "file:say.wav")).media_fault
    assert MediaFiles((folder, other)).show(Case(None, "file:say.wav")).media


def test_without_folders_no_file_is_found():
    assert MediaFiles(()).show(Case(None, "file:a.png")).media_fault.endswith("no such file: 'a.png'")
