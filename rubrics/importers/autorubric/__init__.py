"""AutoRubric lists, YAML or JSON: a weight and a requirement each, and options where it is more than met or not met.

The file is a list of criteria, or of sections (`name`, `criteria`), or a mapping with that list under `rubric` or
`sections`. An option that takes an output out of the score (`na: true`) is no level: a judge that can't tell leaves the
criterion unscored here. Such options stand under `metadata.autorubric`.
"""

from gradebook.rubrics.importers.autorubric.exporting import write_autorubric
from gradebook.rubrics.importers.autorubric.importing import read_autorubric
from gradebook.rubrics.importers.interfaces import Format

SUMMARY = "a list of weights and requirements, with options where they are graded"
FORMAT = Format("autorubric", SUMMARY, ".yaml", "rubric", read_autorubric, write_autorubric)
