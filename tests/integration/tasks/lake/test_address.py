"""Addresses of lakes."""

import pytest

from gradebook.tasks.lake.address import find_lake

USUAL, POSTGRES = "sqlite:lake/catalog.sqlite", "postgres:dbname=a host=b"


@pytest.mark.parametrize(
    ("lake", "data", "usual", "words", "on_a_page"),
    [
        (USUAL, None, USUAL, [], []),
        ("sqlite:{here}/lake/catalog.sqlite", None, USUAL, [], []),
        (USUAL, None, POSTGRES, ["--lake", USUAL], ["--lake", USUAL]),
        ("sqlite:/far/c.sqlite", None, USUAL, ["--lake", "sqlite:/far/c.sqlite"], ["--lake", "sqlite:/far/c.sqlite"]),
        ("sqlite:c.sqlite", "d", "sqlite:c.sqlite", ["--data", "d"], ["--data", "d"]),
        (POSTGRES, "d", POSTGRES, ["--data", "d"], ["--data", "d"]),
        (POSTGRES, "d", USUAL, ["--lake", POSTGRES, "--data", "d"], ["--data", "d"]),
        (POSTGRES, "d", "postgres:dbname=a password=secret", ["--lake", POSTGRES, "--data", "d"], ["--data", "d"]),
    ],
)
def test_a_command_to_paste_names_a_lake_that_is_not_the_usual_one(
    tmp_path, monkeypatch, lake, data, usual, words, on_a_page
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADEBOOK_LAKE", usual)
    found = find_lake(lake.format(here=tmp_path), data)
    assert ([*found.words()], [*found.words(is_passed_on=True)]) == (words, on_a_page)
