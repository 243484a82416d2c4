"""Calls that run what a file says, and calls that listen: where they are allowed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.law_over import law_over
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
# Calls by the file that may make them, with the reason.
ALLOWED = {
    (
        "tasks/judging/session/request_coalescing.py",
        "pickle",
    ): "a temporary database of this process, which no other opens",
    ("tasks/lake/sql.py", "yaml.load"): "a file of gradebook's own, by libyaml's safe loader",
    ("tasks/reporting/rendering.py", "yaml.load"): "files of gradebook's own pages, by libyaml's safe loader",
    ("tasks/system/processes.py", "pickle"): "pipes to and from children of this process",
}
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
NAMES = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "tempfile.mktemp"),
    *(f"yaml.{name}" for name in ("load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all")),
    *(f"yaml.{name}" for name in ("Loader", "CLoader", "FullLoader", "CFullLoader", "UnsafeLoader", "CUnsafeLoader")),
}
LAST_WORDS = {name.rpartition(".")[2] for name in ATTRIBUTES}
OPEN = {"shell": False, "allow_pickle": False, "trust_remote_code": False, "verify": True}  # all that these may be


def dangers(tree: ast.Module) -> Iterator[str]:
    """Names of the calls and imports in a module that can run what a file or an address says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]
            yield from (name.partition(".")[0] for name in names if name.partition(".")[0] in MODULES)
            yield from (name for name in names if name in ATTRIBUTES)
        elif isinstance(node, ast.Attribute) and node.attr in LAST_WORDS and (name := ast.unparse(node)) in ATTRIBUTES:
            yield name
        elif isinstance(node, ast.Call):
            yield from (name for name in NAMES if isinstance(node.func, ast.Name) and node.func.id == name)
            yield from (f"{word.arg}=" for word in node.keywords if word.arg in OPEN and not _is_closed(word))


def _is_closed(word: ast.keyword) -> bool:
    return isinstance(word.value, ast.Constant) and word.value.value is OPEN[str(word.arg)]


def test_nothing_runs_what_a_file_says_but_for_the_named_exceptions():
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("flows", "tasks", "rubrics")
        for path in (ROOT / room).rglob("*.py")
        for name in dangers(tree_of(path))
    }
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == []  # an exception that nobody needs any more


@law_over(
    "source",
    [
        *("import pickle", "from pickle import loads", "import os\nos.system('x')", "from os import system"),
        *("eval('1')", "exec(text)", "yaml.load(text)", "from yaml import load", "run(words, shell=True)"),
        *("run(words, shell=is_shell)", "np.load(f, allow_pickle=True)", "get(url, verify=False)", "import dill as d"),
    ],
)
def test_the_law_sees(source):
    assert list(dangers(ast.parse(source)))


def test_the_law_lets_pass_what_is_harmless():
    harmless = "import re\nre.compile('x')\nyaml.safe_load(t)\nrun(w, shell=False)\ngroup.system\nyaml.CSafeLoader"
    assert list(dangers(ast.parse(harmless))) == []


LISTENING = re.compile(r"uvicorn\.Config\(|socketserver|http\.server|create_server|start_server|\.listen\(|run_app\(")


def test_whatever_listens_uses_the_one_guard():
    files = (path for room in ("flows", "tasks", "rubrics") for path in (ROOT / room).rglob("*.py"))
    modules = {path: path.read_text(encoding="utf-8") for path in files}
    listening = {path.name for path, text in modules.items() if LISTENING.search(text)}
    guarded = {path.name for path, text in modules.items() if "gradebook.tasks.system.listeners import" in text}
    assert listening == {"serve.py"}
    assert listening <= guarded
