"""Imports that a command does without."""

import subprocess
import sys

WITHOUT_PANDAS = """
import sys
from gradebook.tasks.system.lazy_imports import allow_pandas, refuse_pandas
refuse_pandas()
import duckdb, pyarrow
table = pyarrow.table({"x": ["a", None]})
connection = duckdb.connect()
connection.register("given", table)
assert connection.execute("select x from given where x = ?", ["a"]).fetchall() == [("a",)]
assert "pandas" not in sys.modules
allow_pandas()
frame = table.to_pandas()
assert pyarrow.array(frame["x"]).to_pylist() == ["a", None]
"""


def test_pandas_is_imported_only_where_it_is_allowed_and_works_from_then_on():
    finished = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
