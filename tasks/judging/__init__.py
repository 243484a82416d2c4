"""One question to one model.

settings   judge files, panels, keys
money      prices and budgets
replies    questions, judgments, the journal, recorded replies
transport  HTTP, retries, rate limits, circuit breaker, probe
session    sessions with a judge, leases between runs
batches    the Batch API
opinions   votes of panels and cascades combined
"""
