"""Sessions with a judge: one event loop that sends questions, coalesces equal ones and leases them.

session             JudgingSession, open_session, open_sessions, probe_members: asking a judge from any thread
client              JudgeClient: one question until a usable reply or failure
lease               Leases: of runs that want the same reply, one asks and the others wait
request_coalescing  SharedAnswers: equal questions of a session are asked once
loop_thread         JudgingThread: the thread with the event loop
Everything else is internal.
"""
