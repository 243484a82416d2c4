"""Trees of tasks, as PaperBench has them: groups with weights become categories, leaves become criteria for a judge.

A node's score is its children's weighted mean in both formats, so the weights are taken as they are. The root is the
rubric itself; where it has no `sub_tasks`, it is the one criterion too. A graded tree (`score`, `valid_score`,
`explanation`) names no output, so its grades are no ratings: they stand under `metadata.tree` of their nodes.
"""

from gradebook.rubrics.importers.interfaces import Format
from gradebook.rubrics.importers.tree.exporting import write_tree
from gradebook.rubrics.importers.tree.importing import read_tree

SUMMARY = "a tree of tasks with weights and requirement texts, as PaperBench has it"
FORMAT = Format("tree", SUMMARY, ".json", "rubric", read_tree, write_tree)
