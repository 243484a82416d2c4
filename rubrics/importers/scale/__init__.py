"""Scale task exports: conversations, their criteria written by people, and ratings of each response."""

from gradebook.rubrics.importers.interfaces import Format
from gradebook.rubrics.importers.scale.exporting import write_scale
from gradebook.rubrics.importers.scale.importing import read_scale

SUMMARY = "tasks with responses, criteria and ratings"
FORMAT = Format("scale", SUMMARY, ".json", "cases", read_scale, write_scale)
