"""AutoRubric lists, YAML or JSON: a weight and a requirement each, and options for graded ones.

The file is a list of criteria, or of sections (`name`, `criteria`), or a mapping with that list under `rubric` or
`sections`. An option that excludes an output from the score (`na: true`) is not a level: here, a judge that cannot
decide leaves the criterion unscored. Such options are stored under `metadata.autorubric`.
"""

from gradebook.rubrics.importers.autorubric.exporting import write_autorubric
from gradebook.rubrics.importers.autorubric.importing import read_autorubric
from gradebook.rubrics.importers.interfaces import Format

SUMMARY = "a list of weights and requirements, with options for graded ones"
FORMAT = Format("autorubric", SUMMARY, ".yaml", "rubric", read_autorubric, write_autorubric)
