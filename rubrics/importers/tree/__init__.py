"""Trees of tasks, as in PaperBench: groups with weights become categories, leaves become criteria for a judge.

In both formats, a node's score is its children's weighted mean, so the weights are unchanged. The root is the rubric
itself; without `sub_tasks`, it is the only criterion too. A graded tree (`score`, `valid_score`, `explanation`) is of
one output, which it does not name: the grades of its leaves are ratings of the case named by the root's id, of the
model `unknown`. All grades are stored under `metadata.tree` of their nodes too.
"""

from gradebook.rubrics.importers.interfaces import Format
from gradebook.rubrics.importers.tree.exporting import write_tree
from gradebook.rubrics.importers.tree.importing import read_tree

SUMMARY = "a tree of tasks with weights and requirement texts, as in PaperBench"
FORMAT = Format("tree", SUMMARY, ".json", "rubric", read_tree, write_tree)
