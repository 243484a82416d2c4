"""The public API: its names and signatures, its cheap import, its examples."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradebook
from gradebook.flows.api import evaluation, inputs, published, registry, scoring
from gradebook.tasks.rubric_store import versions as given_rubrics

ROOT = Path(__file__).parents[2]
MODULES = (evaluation, inputs, given_rubrics, published, registry, scoring)
# A change of these is a change for every caller: it needs a line in CHANGELOG.md, a removal a new major version.
SIGNATURES = {
    "check": "(output, rubric, judge=None, *, at_least=None)",
    "evaluate": "(outputs, rubric, judge=None, lake=None, *, embedder=None, baseline=None, require=None, fail_if=None,"
    " stop=None, across_judges=False, models='common', gate='both', budget_usd=None, ratings=None, column_map=None,"
    " trace_format=None,"
    " model=None, sample=None, stratify=None, max_bad_rate=0.01, allow_unscored=False, allow_functions=(),"
    " feedback=None, deadline=None, record=None, run_id=None, data=None, quality=None, suites=False, dataset=None,"
    " progress=None, prefect=None)",
    "lint": "(rubric)",
    "load_rubric": "(rubric, lake=None)",
    "open_lake": "(uri=None, data=None, at=None)",
    "Registry": "(lake=None, data=None)",
    "score": "(output, rubric, judge=None)",
    "Scorer": "(rubric, judge=None, *, deadline_s=None, budget_usd=None, on_fault='none', gates='veto', lake=None,"
    " data=None, job=None, column_map=None, allow_functions=(), baseline=None, functions=None)",
}
MEMBERS = {
    "Difference": "as_dict found is_failed verdict",
    "Feedback": "is_done mendings unscored",
    "Lake": "compare run runs sql",
    "Registry": "delete get get_for_target list register review update",
    "Review": "artifact as_json evaluations feedback status summary target",
    "Run": "compare criteria failed is_met outputs report scores sql summary to_arrow to_pandas verdicts",
    "Score": "as_dict criteria failed_gates is_passed output_id pass_threshold reward score score_high score_low"
    " unscored unscored_reason",
    "Scorer": "ascore ascore_all close criteria expected_s feedback judge score score_all score_batch weights",
}
KINDS = "Criterion CriterionScore Level Rubric"
ERRORS = """
BudgetReached EndpointUnavailable GradebookError InputError JudgeSettingsError LakeError OutputsError QualityNotMet
QueryError RubricError UnfinishedError Unscored
"""


def bare(signature: inspect.Signature) -> str:
    """A signature without its annotations."""
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def members_of(kind: type) -> set[str]:
    fields = getattr(kind, "__dataclass_fields__", {})
    return {name for name in {*dir(kind), *fields} if not name.startswith("_")}


def test_the_names_are_those():
    names = {*SIGNATURES, *MEMBERS, *KINDS.split(), *ERRORS.split()}
    assert (sorted(names), set(dir(gradebook)) & names) == (gradebook.__all__, names)
    assert [name for name in names if getattr(gradebook, name) is None] == []


def test_the_signatures_are_those():
    assert {name: bare(inspect.signature(getattr(gradebook, name))) for name in SIGNATURES} == SIGNATURES


def test_the_members_are_those():
    assert {name: " ".join(sorted(members_of(getattr(gradebook, name)))) for name in MEMBERS} == MEMBERS


def test_the_options_of_evaluate_are_those_of_the_command_with_its_defaults():
    from gradebook.tasks.runs.request import Use, options_of

    named = inspect.signature(gradebook.evaluate).parameters
    wanted = {option.name: option.plain_default for option in options_of(Use.COMMAND) if option.name != "runner"}
    found = {name: named[name].default or None for name in wanted if name in named}
    assert set(found) == set(wanted)
    changed = {name for name in wanted if found[name] != (wanted[name] or None)}
    assert changed == {"outputs", "rubric", "lake"}  # required, and of the environment


def test_every_public_name_says_what_it_is():
    assert [name for name in gradebook.__all__ if not inspect.getdoc(getattr(gradebook, name))] == []


def test_another_name_is_no_attribute():
    assert not hasattr(gradebook, "evaluator")


def test_the_import_brings_no_library_and_single_outputs_no_prefect():
    code = """
import gradebook, json, sys
libraries = ["pydantic", "pyarrow", "numpy", "duckdb", "yaml", "prefect", "great_expectations", "openai", "pandas"]
first = [name for name in libraries if name in sys.modules]
gradebook.check('{"id": 1}', "json_record", at_least=0.1)
print(json.dumps([first, [name for name in libraries if name in sys.modules]]))
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    first, later = json.loads(found.stdout)
    assert (first, {"prefect", "great_expectations", "openai"} & set(later)) == ([], set())
    assert found.stderr == ""


@pytest.mark.slow
def test_the_examples_of_the_docstrings_hold(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(gradebook, name) for name in gradebook.__all__}
    names["LAKE"] = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    examples = [each for module in MODULES for each in doctest.DocTestFinder().find(module, globs=names)]
    assert [problem for example in examples for problem in tried(example)] == []
    assert sum(bool(each.examples) for each in examples) >= 6


@pytest.mark.slow
def test_the_examples_of_the_docs_hold(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    for page in ("python", "rewards"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
        assert (tried(example), bool(example.examples)) == ([], True)


def tried(example: doctest.DocTest) -> list[str]:
    """Run examples in order; returns what came other than expected."""
    reports: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(example, out=reports.append)
    return reports
