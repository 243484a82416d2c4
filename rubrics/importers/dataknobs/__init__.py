"""Format of dataknobs rubrics: JSON with criteria, levels and a scoring method each; lossless both ways.

Content of dataknobs without a place in gradebook is stored under `metadata.dataknobs` of the rubric and of its
criteria; content of gradebook without a place in dataknobs is stored under `metadata.gradebook` of the foreign rubric.

A schema that is only named (`schema_ref`) is read if it is a file below the rubric's folder; nothing is fetched. A
criterion without one cannot be scored: it gets the method
`function` with a placeholder name, which an evaluation refuses before any money is spent; a judge would answer another
question, and an empty schema would accept everything. The same applies to a `function_ref` that is not a
`module.path:function`.
"""

from gradebook.rubrics.importers.dataknobs.exporting import write_dataknobs
from gradebook.rubrics.importers.dataknobs.importing import read_dataknobs
from gradebook.rubrics.importers.interfaces import Format

SUMMARY = "a rubric with criteria, levels and a scoring method each; lossless both ways"
FORMAT = Format("dataknobs", SUMMARY, ".json", "rubric", read_dataknobs, write_dataknobs)
