"""Suites files: content, relative paths, and all faults at once."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError, SuitesError
from gradebook.tasks.operations.suites import Suite, SuitesFile, chosen_suites, read_suites, suite_request, suites_lake

ROOT = Path(__file__).parents[4]
NOW = datetime(2026, 11, 22, 2, 30, tzinfo=UTC)
NIGHT = date(2026, 11, 22)
TWO = """
lake: sqlite:lake/catalog.sqlite
budget_usd: 5
defaults: {outputs: "out/{date}/*.jsonl", judge: judge.yaml, baseline: null, budget_usd: 2}
suites:
  - {id: first, rubric: general_answer, judge: "replay:replies.jsonl"}
  - {id: second, rubric: own.yaml, outputs: /srv/all.jsonl, judge: null, baseline: latest, budget_usd: 0.5}
"""
FAULTY = """
lakes: x
budget_usd: yes
defaults: {fail_if: mean_dif < 0, deadline: soon}
suites:
  - {id: a b, outputs: "{day}.jsonl", rubric: r.yaml}
  - {id: c, outputs: 3, budget_usd: -1}
  - {id: c, rubric: x, outputs: y, outputz: 3}
  - {id: d, rubric: x, outputs: y, baseline: null, require: p <}
"""


@pytest.fixture(autouse=True)
def _allowed(monkeypatch):
    monkeypatch.setenv("GRADEBOOK_ALLOW_FOLDERS", "/srv")


def written(folder: Path, text: str) -> Path:
    path = folder / "suites.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(SuitesError) as refused:
        read_suites(written(folder, text))
    return [str(fault).removeprefix(f"{folder}/suites.yaml:") for fault in refused.value.faults]


def request_of(file: SuitesFile, suite_id: str, left: float | None = None):
    return suite_request(file[suite_id], NIGHT, NOW, lake=file.lake, data=file.data, budget_usd=left)


def test_a_suite_inherits_the_defaults_it_does_not_set(tmp_path):
    file = read_suites(written(tmp_path, TWO))
    said = [(suite.judge, suite.baseline, suite.budget_usd) for suite in file.suites]
    assert said == [(f"replay:{tmp_path}/replies.jsonl", None, 2.0), (None, "latest", 0.5)]


def test_paths_count_from_the_folder_of_the_suites_file(tmp_path):
    file = read_suites(written(tmp_path, TWO))
    assert file.lake == f"sqlite:{tmp_path}/lake/catalog.sqlite"
    assert [suite.rubric for suite in file.suites] == ["general_answer", f"{tmp_path}/own.yaml"]
    assert [suite.outputs for suite in file.suites] == [f"{tmp_path}/out/{{date}}/*.jsonl", "/srv/all.jsonl"]


def test_brackets_of_the_folder_s_name_are_no_glob(tmp_path):
    (folder := tmp_path / "run [1]").mkdir()
    (folder / "a.jsonl").touch()
    file = read_suites(written(folder, 'suites: [{id: a, rubric: r, outputs: "*.jsonl"}]'))
    assert file["a"].outputs == f"{tmp_path}/run [[]1]/*.jsonl"


def test_the_date_is_inserted_into_the_outputs(tmp_path):
    assert request_of(read_suites(written(tmp_path, TWO)), "first").outputs == f"{tmp_path}/out/2026-11-22/*.jsonl"


def test_a_suite_may_spend_the_smaller_of_its_budget_and_the_rest(tmp_path):
    file = read_suites(written(tmp_path, TWO))
    left = [request_of(file, "first", budget).budget_usd for budget in (None, 1.5, 4.0)]
    assert left == [2.0, 1.5, 2.0]


def test_a_suite_s_default_baseline_is_its_last_night_that_met_its_gates(tmp_path):
    file = read_suites(written(tmp_path, "suites: [{id: a, rubric: r, outputs: o}]"))
    assert (file["a"].baseline, file["a"].max_bad_rate, file.lake) == ("latest_met", 0.01, None)


def test_every_fault_is_reported_at_once_with_its_line(tmp_path):
    faults = faults_of(tmp_path, FAULTY)
    assert [fault.partition(",")[0].partition(" (")[0] for fault in faults] == [
        "2: found the unknown key 'lakes'",
        "3: budget_usd: found true",
        "4: defaults.fail_if: at character 1: found 'mean_dif'",
        "4: defaults.deadline: found 'soon'",
        "6: suites[0].id: found 'a b'",
        "6: suites[0].outputs: found {day}",
        "7: suites[1].outputs: found 3",
        "7: suites[1].budget_usd: found -1",
        "7: suites[1]: found no 'rubric'",
        "8: suites[2]: found the unknown key 'outputz'",
        "8: suites[2].id: found 'c' again",
        "9: suites[3]: found fail_if and require without a baseline",
        "9: suites[3].require: at character 4: found the end",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("suites: []", "1: suites: found an empty list, expected at least 1 entry"),
        ("lake: x", "1: found no 'suites', expected one"),
        ("- 1", "1: found a list at the top of the file, expected lines of `key: value`"),
        ("suites: [{id: a, outputs: o, rubric: r, <<: {judge: j}}]", "1: found the merge key <<"),
        ("suites: [{id: a, outputs: o, rubric: !!python/name:os.system r}]", "1: found the tag"),
    ],
)
def test_an_invalid_suites_file_is_refused(tmp_path, text, fault):
    assert faults_of(tmp_path, text)[0].startswith(fault)


def test_aliases_that_expand_to_millions_of_values_are_refused(tmp_path):
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "with the aliases written out" in faults_of(tmp_path, "\n".join(bomb))[-1]


def test_a_missing_suites_file_is_named():
    with pytest.raises(SuitesError, match=r"none\.yaml: can't be read \(No such file or directory\)"):
        read_suites(Path("none.yaml"))


def test_an_unknown_suite_is_refused_with_the_known_ids(tmp_path):
    file = read_suites(written(tmp_path, TWO))
    assert [suite.id for suite in chosen_suites(file, ["second"])] == ["second"]
    with pytest.raises(InputError, match="--only: found 'third', expected one of first, second"):
        chosen_suites(file, ["third"])


@pytest.mark.parametrize("name", ["a" * 49, "a-", "_a", ""])
def test_an_id_that_two_runs_could_share_is_refused(tmp_path, name):
    assert "1 to 48 letters" in faults_of(tmp_path, f'suites: [{{id: "{name}", outputs: o, rubric: r}}]')[0]


def test_the_shipped_suites_name_existing_files():
    file = read_suites(ROOT / "examples" / "support_replies" / "suites.yaml")
    named = [Path(path) for suite in file.suites for path in (suite.outputs, suite.rubric) if path]
    assert len(named) == 4
    assert all(path.exists() for path in named)


# -------- what a file of others may not allow
def test_the_functions_of_a_suites_file_are_a_bound_and_no_permission(tmp_path):
    text = "suites: [{id: a, outputs: o, rubric: r, allow_functions: [evilpkg]}]"
    file = read_suites(written(tmp_path, text))
    request = suite_request(file["a"], NIGHT, NOW, lake=None, data=None, budget_usd=None)
    assert (request.allow_functions, request.functions_within) == ((), ("evilpkg",))


def lake_of(folder: Path, lake: str, allowed: str = "") -> str | None:
    text = f"lake: {json.dumps(lake)}\nsuites: [{{id: a, outputs: o, rubric: r}}]"
    return suites_lake(read_suites(written(folder, text)), {"GRADEBOOK_ALLOW_KEYS": allowed})


@pytest.mark.parametrize("place", ["127.0.0.1", "db.internal"])
@pytest.mark.parametrize("form", ["host={} port=28940 dbname=x user=u", "//u@{}:28940/x", "postgresql://{}:28940/x"])
def test_a_postgresql_server_of_a_suites_file_has_to_be_allowed(tmp_path, place, form):
    lake = f"postgres:{form.format(place)}"
    with pytest.raises(InputError) as caught:
        lake_of(tmp_path, lake)
    assert f'GRADEBOOK_ALLOW_KEYS="PGPASSWORD@{place}:28940"' in str(caught.value)
    assert lake_of(tmp_path, lake, f"PGPASSWORD@{place}") == lake
    with pytest.raises(InputError):
        lake_of(tmp_path, lake, f"PGPASSWORD@{place}:5432")


@pytest.mark.parametrize(
    "connection",
    [
        "host=a,evil.example dbname=x",
        "host=a hostaddr=1.2.3.4",
        "host=a host=evil.example",
        "service=x",
        "dbname='host=evil.example'",
        "dbname=postgresql://evil.example/x",
        "host=/tmp/socket",
        "//a,evil.example/x",
        "//a/x?host=evil.example",
    ],
)
def test_other_settings_of_a_connection_are_refused_in_a_suites_file(tmp_path, connection):
    with pytest.raises(InputError, match="found a connection with other settings in a suites file"):
        lake_of(tmp_path, f"postgres:{connection}", "PGPASSWORD@a")


def test_a_lake_without_a_server_needs_no_permission(tmp_path):
    assert lake_of(tmp_path, "postgres:dbname=x user=u") == "postgres:dbname=x user=u"
    assert lake_of(tmp_path, "sqlite:a.sqlite") == f"sqlite:{tmp_path}/a.sqlite"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("suites: [{id: a, rubric: r, outputs: /home/ann/private.jsonl}]", "suites[0].outputs: found '/home/ann/p"),
        ("defaults: {ratings: ../../r.csv}\nsuites: [{id: a, rubric: r, outputs: o}]", "defaults.ratings: found '../."),
        ("suites: [{id: a, rubric: /etc/r.yaml, outputs: o}]", "suites[0].rubric: found '/etc/r.yaml'"),
        ("suites: [{id: a, rubric: r, outputs: o, judge: 'replay:/etc/r.jsonl'}]", "suites[0].judge: found '/etc/r."),
        ("suites: [{id: a, rubric: r, outputs: 'link/*.jsonl'}]", "suites[0].outputs: found 'link/*.jsonl'"),
        ("suites: [{id: a, rubric: r, outputs: 'x*/../../*.jsonl'}]", "suites[0].outputs: found 'x*/../../*.jsonl'"),
        ("lake: sqlite:/home/ann/lake.sqlite\nsuites: [{id: a, rubric: r, outputs: o}]", "lake: found '/home/ann/lake"),
        ("suites: [{id: a, rubric: r, outputs: o, judge: /home/ann/judge}]", "suites[0].judge: found '/home/ann/judge"),
        ("suites: [{id: a, rubric: r, outputs: o, judge: x/../../j}]", "suites[0].judge: found 'x/../../j'"),
        ("suites: [{id: a, rubric: ../r.json, outputs: o}]", "suites[0].rubric: found '../r.json'"),
        ("suites: [{id: a, rubric: r, outputs: o, embedder: /home/ann}]", "suites[0].embedder: found '/home/ann'"),
        ("suites: [{id: a, rubric: r, outputs: o, embedder: link}]", "suites[0].embedder: found 'link'"),
        ("suites: [{id: a, rubric: r, outputs: o, quality: ../q.json}]", "suites[0].quality: found '../q.json'"),
        ("data: /home/ann\nsuites: [{id: a, rubric: r, outputs: o}]", "data: found '/home/ann'"),
    ],
)
def test_a_path_elsewhere_is_the_operator_s_to_allow(tmp_path, monkeypatch, text, place):
    (tmp_path / "link").symlink_to("/etc")
    monkeypatch.chdir(tmp_path)
    (fault,) = faults_of(tmp_path, text)
    assert place in fault
    monkeypatch.setenv("GRADEBOOK_ALLOW_FOLDERS", "/")
    if ".." not in place:
        assert read_suites(written(tmp_path, text))


@pytest.mark.parametrize(
    ("data", "allowed", "is_taken"),
    [
        ("s3://theirs/x", "", False),
        ("s3://theirs/x", "/", False),
        ("s3://theirs/x", "/srv:s3://ours:/tmp", False),
        ("s3://ours-too/x", "s3://ours", False),
        ("s3://ours/night", "s3://ours/nightly", False),
        ("gs://ours/x", "s3://ours", False),
        ("file:///etc", "/", False),
        ("s3://ours/x", "/srv:s3://ours:/tmp", True),
        ("s3://ours/nightly/x", "s3://ours/nightly/", True),
        ("s3://ours", "s3://ours", True),
    ],
)
def test_object_storage_of_a_suites_file_is_the_operator_s_to_allow(tmp_path, monkeypatch, data, allowed, is_taken):
    text = f"data: {data}\nsuites: [{{id: a, rubric: r, outputs: o}}]"
    monkeypatch.setenv("GRADEBOOK_ALLOW_FOLDERS", allowed)
    if is_taken:
        assert read_suites(written(tmp_path, text)).data == data
    else:
        assert faults_of(tmp_path, text)[0].startswith(f"1: data: found '{data}', expected a folder, or s3://BUCKET/")


# Keys of free text that name no file and no address: columns, rules, times, packages, models, runs of the lake.
NO_PLACES = {
    *("column_map", "stratify", "allow_functions", "deadline", "baseline", "require", "fail_if", "stop", "id", "model"),
}


def test_every_key_of_text_either_names_no_place_or_is_refused_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {name for name, field in Suite.model_fields.items() if "str" in str(field.annotation)}
    assert {*SuitesFile.model_fields} == {"lake", "data", "budget_usd", "defaults", "suites"}  # of places: two
    assert keys >= NO_PLACES
    for key in keys - NO_PLACES:
        suite = {"id": "a", "rubric": "r", "outputs": "o"} | {key: "/elsewhere/x"}
        assert f".{key}: found '/elsewhere/x'" in faults_of(tmp_path, json.dumps({"suites": [suite]}))[0]


@pytest.mark.parametrize("value", [{"outputs": "a\0"}, {"baseline": "a\0"}, {"anchors": {"set": "a\0"}}])
def test_a_null_character_is_a_fault_of_the_file(tmp_path, value):
    values = {"id": "a", "outputs": "o", "rubric": "r"} | value
    (fault,) = faults_of(tmp_path, json.dumps({"suites": [values]}))
    assert "found 'a\\x00', expected text without null characters" in fault
