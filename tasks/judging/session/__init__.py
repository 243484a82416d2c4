"""Sessions with a judge: one event loop that sends questions, coalesces equal ones and leases them.

session             JudgingSession, open_session, open_sessions, JudgingThread: asking a judge from any thread
client              JudgeClient: one question until a usable reply or failure; its logs and traces
lease               Leases: of runs that want the same reply, one asks and the others wait
request_coalescing  SharedAnswers: equal questions of a session are asked once; their outcomes, on disk if many
program_asking      ProgramAsker: questions that a program of the operator answers
"""
