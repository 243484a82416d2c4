"""`gradebook report`: a page, a comment or a picture of a run, with or without a comparison."""

import pytest

from tests.support.nightly import matrix
from tests.support.reported_runs import publish_run

CRITERIA = ({"id": "brief"}, {"id": "safe", "gate": True})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs a, b and c of one model, and d of two others."""
    found = tmp_path_factory.mktemp("runs")
    for name, count in (("a", 12), ("b", 3), ("c", 6)):
        publish_run(found, {"m": count}, CRITERIA, run_id=name)
    publish_run(found, {"n": 3, "o": 4}, CRITERIA, run_id="d")
    return found


@pytest.fixture
def report(folder, gradebook):
    """`gradebook report` with these runs."""
    return lambda *words: gradebook("report", *words, "--lake", f"sqlite:{folder}/lake/catalog.sqlite")


@pytest.mark.parametrize(
    ("form", "begin"), [("html", b"<!doctype html>"), ("md", b"**m may ship"), ("png", b"\x89PNG")]
)
def test_a_report_has_the_name_of_its_run_and_format(report, tmp_path, form, begin):
    (tmp_path / f"a.{form}").write_text("written earlier", encoding="utf-8")
    finished = report("a", "--format", form)
    assert (finished.code, finished.out) == (0, f"a.{form}\n"), finished.err
    assert (tmp_path / f"a.{form}").read_bytes().lstrip().startswith(begin)


@pytest.mark.parametrize(("form", "begin"), [("html", "<!doctype html>"), *matrix([("md", "**m may ship")])])
def test_stdout_has_only_the_report(report, tmp_path, form, begin):
    finished = report("a", "--format", form, "--out", "-")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.lstrip().startswith(begin)
    assert list(tmp_path.iterdir()) == []


def test_a_report_creates_its_missing_folder(report, tmp_path):
    assert report("a", "--format", "md", "--out", "new/a.md").out == "new/a.md\n"
    assert (tmp_path / "new" / "a.md").exists()


def test_a_report_compares_the_run_with_the_named_one(report):
    finished = report("b", "--against", "a", "--format", "md", "--out", "-")
    assert "A is run a, B this one, b." in finished.out
    assert "| overall | worse | 1.000 | 0.250 | -0.750 |" in finished.out


@pytest.mark.nightly
def test_a_run_is_compared_as_the_lake_was_then(report):
    finished = report("b", "--against", "a", "--at", "b", "--format", "md", "--out", "-")
    assert "A is run a, B this one, b." in finished.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *matrix(
            [
                (("b", "--against", "b"), "--against: found b, the run itself, expected another run"),
                (("b", "--against", "c", "--at", "b"), "--against: found no 'c' in "),
                (
                    ("b", "--against", "d"),
                    "--against: found the models n, o and m, expected one each or a common one\n",
                ),
                (
                    ("b", "--format", "pdf"),
                    "--format: found 'pdf', expected one of 'html', 'md', 'png'; ",
                ),
                (("b", "--format", "md", "--out", "folder"), "--out: can't write folder: Is a directory"),
            ]
        ),
        (("no-run", "--against", "nobody"), "gradebook: --against: found no 'nobody' in "),  # before anything is read
        (("b", "--format", "png", "--out", "file/x.png"), "--out: can't write file/x.png: "),
        *matrix(
            [
                (("b", "--format", "md", "--out", "/proc/x.md"), "--out: can't write /proc/x.md: "),
                (("b", "--format", "md", "--out", ""), "--out: can't write .: "),
            ]
        ),
    ],
)
def test_an_impossible_report_is_refused_in_a_sentence(report, tmp_path, words, sentence):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    finished = report(*words)
    assert (finished.code, finished.out) == (2, "")
    assert sentence in finished.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
