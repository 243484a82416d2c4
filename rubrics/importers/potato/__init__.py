"""Potato's annotation configurations: their schemes `rubric_eval` and `trajectory_eval`, which people fill in.

Several such schemes in a file become one rubric with one category each, of equal weight, so that a category's score is
that of the scheme. The file's other keys, and schemes of other types, are stored.
"""

from gradebook.rubrics.importers.interfaces import Format
from gradebook.rubrics.importers.potato.exporting import write_potato
from gradebook.rubrics.importers.potato.importing import read_potato

SUMMARY = "annotation schemes that people fill in: rubric_eval and trajectory_eval"
FORMAT = Format("potato", SUMMARY, ".yaml", "rubric", read_potato, write_potato)
