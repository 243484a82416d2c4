"""Rubrics and judges that learn: drafts from outputs, guidance from ratings.

asking          open_asking, Asking, ObjectQuestion: questions to one model within a budget, answered once by the ledger
examples        read_examples, choose: outputs with the signals of people
draft           draft_rubric: `gradebook rubric draft`; case_draft: with --per-case
improve         open_improvement, ImproveRun: `gradebook judge improve`, better guidance and examples from ratings
compare         compare_candidates: rubrics, judges and runs by agreement against price
candidates      CandidateJudge: changed questions asked about stored outputs
rated           what people rated; judge_examples: examples chosen of it
"""
