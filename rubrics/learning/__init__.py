"""Drafts of rubrics, without requests: forms of a model's proposals, and the rules that accept them.

proposals   failure modes and criteria as a model proposes them, each checked against the outputs that it cites
signals     thumbs, ratings and notes in rows of outputs, read as good or bad
trial       figures of a criterion over outputs that its draft did not use, and the reason to drop it
draft_file  a draft as YAML, with comments on where each criterion came from
case_drafts criteria of one case, checked for the words of its reference
"""
