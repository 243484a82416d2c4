"""Questions put to a model, and the replies to them: read, journaled, cached or recorded.

question             Question, FeedbackQuestion, Request, Outcome, Answer: a question and its outcome
list_questions       ListQuestion, claim_units, step_questions: questions whose reply is one list
embedding_questions  EmbeddingQuestion, batches_of: texts whose vectors an endpoint gives
batched_criteria     PackedQuestion, DecisionQuestions: several criteria of one output in one request
completion           Reply, read_completion, describe_unreadable: the body of an HTTP 200
judgment_row         judgment_row, outcome_of: columns of a judgment, outcome for the caller
journal              Journal, JournalTail, settled_journals, read_journal: replies on disk
recorded_judge       ReplaySession, RecordedReply: a judge that reads its replies from a file
"""
