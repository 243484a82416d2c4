"""The form of the SQL files, which makes them read alike."""

import re
from importlib.resources import files

from gradebook.tasks.marts.models import LAYERS as MODEL_LAYERS
from gradebook.tasks.marts.models import MATERIALIZED, SOURCES, mart_names, model_order
from tests.support.law_over import law_over

ROOMS = [f"queries/{room.name}" for room in files("gradebook.sql").joinpath("queries").iterdir()]
CHECKS = [f"checks/{stage.name}" for stage in files("gradebook.sql").joinpath("checks").iterdir()]
LAYERS = (*MODEL_LAYERS, "views", *CHECKS, *ROOMS)
FILES = {
    f"{layer}/{entry.name}": entry.read_text(encoding="utf-8")
    for layer in LAYERS
    for entry in files("gradebook.sql").joinpath(layer).iterdir()
}
MODELS = [path for path in FILES if not path.startswith("checks/")]
STAGED = {source for path in FILES if path.startswith("staging/") for source in re.findall(r"source_\w+", FILES[path])}
EXPRESSION = re.compile(r"^(?:with )?(\w+) as \(", re.MULTILINE)


def stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".sql")


def code_of(path: str) -> str:
    """The file without comments and quoted texts."""
    return re.sub(r"--.*|'[^']*'", "", FILES[path])


@law_over("path", MODELS)
def test_a_model_begins_with_its_name_and_grain(path):
    assert FILES[path].startswith(f"-- {stem(path)}: ")


@law_over("path", MODELS)
def test_a_header_ends_with_the_kind_of_relation_if_it_names_one(path):
    header = re.match(r"(?:--.*\n)+", FILES[path])[0].splitlines()
    named = [line for line in FILES[path].splitlines() if line.startswith("-- materialized:")]
    assert named in ([], [header[-1]])
    assert {line.removeprefix("-- materialized: ") for line in named} <= {*MATERIALIZED}
    assert path.startswith("intermediate/") or not named


@law_over("path", [path for path in FILES if path.startswith("checks/")])
def test_a_check_begins_with_its_rule_and_severity(path):
    assert re.match(r"-- [^\n]+\.\n-- severity: (error|warning)\n", FILES[path])


@law_over("path", FILES)
def test_the_last_line_selects_from_final(path):
    assert FILES[path].endswith("\n)\n\nselect * from final\n")


@law_over("path", FILES)
def test_a_file_has_under_80_lines_and_at_most_6_expressions(path):
    assert (len(FILES[path].splitlines()) < 80, len(EXPRESSION.findall(FILES[path])) <= 6) == (True, True)


@law_over("path", FILES)
def test_no_line_is_longer_than_120(path):
    assert [line for line in FILES[path].splitlines() if len(line) > 120] == []


@law_over("path", FILES)
def test_the_code_is_lower_case(path):
    assert code_of(path) == code_of(path).lower()


@law_over("path", FILES)
def test_no_expression_is_named_after_a_relation(path):
    assert set(EXPRESSION.findall(FILES[path])) & {*model_order(), *SOURCES} == set()


@law_over("path", FILES)
def test_a_source_with_a_staging_model_is_read_through_it(path):
    assert path.startswith(("staging/", "queries/")) or not STAGED & {*re.findall(r"source_\w+", code_of(path))}


@law_over("path", [path for path in FILES if path.startswith(("staging/", "intermediate/", "marts/"))])
def test_no_model_reads_a_mart(path):
    assert set(re.findall(r"(?:from|join) (\w+)", code_of(path))) & {*mart_names()} == set()
