"""Questions put to a model, and the replies to them: read, journaled, cached or recorded.

question             Question, FeedbackQuestion, Request, Outcome, Answer: a question and its outcome
list_question        ListQuestion, ListAnswer: a question whose reply is one list
claim_questions      claim_units: questions which claims a text makes, and which a source supports
step_questions       step_unit, step_questions: questions about the steps of an agent
embedding_questions  EmbeddingQuestion, batches_of: texts whose vectors an endpoint gives
batched_criteria     PackedQuestion, packs_of: several criteria of one output in one request
collection_question  CollectQuestion: a prompt put to the model under evaluation
completion           Reply, read_completion: the body of an HTTP 200
judgment_row         judgment_row, outcome_of: columns of a judgment, outcome for the caller
journal              Journal, JournalTail, settled_journals, read_journal: replies on disk
outcome_cache        OutcomeCache: outcomes of a session, on disk if there are many
unreadable           describe_unreadable: replies that can't be read, for errors and notes
recorded_judge       ReplaySession, RecordedReply: a judge that reads its replies from a file
"""
