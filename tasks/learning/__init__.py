"""Rubrics and judges that learn: drafts from outputs, guidance from ratings.

asking   open_asking, Asking, ObjectQuestion: questions to one model within a budget, answered once by the ledger
"""
