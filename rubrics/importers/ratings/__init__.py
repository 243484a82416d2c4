"""Ratings of people in other systems' formats, read into sheets: one person's marks of one output.

registry          READERS, guess_format: formats by name, and their detection
sheets            Sheet, Mark, Slot, Naming; the columns that name the output, the rater and the time
grading           Scales, Grader: marks as levels and scores of criteria
tables            ratings in tables and JSON Lines, also of claims; trajectory: marks of steps
annotation_tools  Label Studio, Potato, Scale
Everything else is internal to this package.
"""
