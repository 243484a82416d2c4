"""Drafts of rubrics, without asking: what a model is asked to propose, and what of it is accepted.

proposals   failure modes and criteria as a model proposes them, each checked against the outputs that it cites
signals     thumbs, ratings and notes in rows of outputs, read as good or bad
trial       figures of a criterion over outputs that were not used to draft it, and why it is dropped
draft_file  a draft as YAML, with comments on where each criterion came from
case_drafts criteria of one case, checked for the words of its reference
"""
