"""One question to one model: settings, prices, budget, transport, replies, batches.

session    a session with a judge: client, leases, shared answers
transport  routes to an endpoint: HTTP, rate limits, retries, the circuit breaker
replies    questions, replies, the journal and recorded replies
prices     Price, Usage, find_price, cost_usd, worst_cost_usd: costs of requests
budget     Budget, BudgetRecord, BatchBudget: reservations and settlements under a limit
settings   judges, panels and judge files; keys
batches    batch jobs of an endpoint: submitted, polled, ingested
opinions   which judges vote on a question, and a cascade's second judge
"""
