"""One question to one model: settings, prices, budget, transport, replies, batches.

session    a session with a judge: client, leases, shared answers
transport  routes to an endpoint: HTTP, rate limits, retries, the circuit breaker
replies    questions, replies, the journal and recorded replies
money      prices and the budget of a run
settings   judges, panels and judge files; keys and deadlines
batches    batch jobs of an endpoint: submitted, polled, ingested
opinions   which judges vote on a question, and a cascade's second judge
"""
