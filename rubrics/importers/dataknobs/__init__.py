"""dataknobs rubrics: JSON with criteria, levels and a scoring method each; both ways without loss.

What dataknobs says and gradebook has no place for stands under `metadata.dataknobs` of the rubric and of its criteria;
what gradebook says and dataknobs has no place for stands under `metadata.gradebook` of the foreign rubric.

A criterion whose schema is only named (`schema_ref`) can't be scored here: nothing is fetched. It stands with the
method `function` and a stand-in's name, which evaluating refuses before anything is spent; a judge would answer another
question, and an empty schema would let everything pass. So does a `function_ref` that is no `module.path:function`.
"""

from gradebook.rubrics.importers.dataknobs.exporting import write_dataknobs
from gradebook.rubrics.importers.dataknobs.importing import read_dataknobs
from gradebook.rubrics.importers.interfaces import Format

SUMMARY = "a rubric with criteria, levels and a scoring method each; both ways without loss"
FORMAT = Format("dataknobs", SUMMARY, ".json", "rubric", read_dataknobs, write_dataknobs)
