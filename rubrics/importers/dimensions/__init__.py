"""Rubrics of dimensions (JSON), each with a method, a weight and a threshold of 0 to 100, and named safety gates.

`rubrics.importers.dimensions.methods` describes the conversion of methods. Weights are meant to add up to 1
(`weight_sum`), and a safety gate is a criterion with `gate: true`. A version of two numbers gets a third, 0.
"""

from gradebook.rubrics.importers.dimensions.exporting import write_dimensions
from gradebook.rubrics.importers.dimensions.importing import read_dimensions
from gradebook.rubrics.importers.interfaces import Format

SUMMARY = "dimensions with weights and thresholds of 0 to 100, and safety gates"
FORMAT = Format("dimensions", SUMMARY, ".json", "rubric", read_dimensions, write_dimensions)
