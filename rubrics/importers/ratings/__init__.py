"""Ratings of people in other systems' formats, read into sheets: one person's marks of one output.

registry    READERS, guess_format: formats by name, and their detection
shapes      Sheet, Mark, Slot, Naming
grading     Scales, Grader: marks as levels and scores of criteria
columns     the columns that name the output, the rater and the time
Everything else is internal to this package.
"""
