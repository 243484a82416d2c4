"""Routes to an endpoint: HTTP, rate limits, retries and the circuit breaker.

endpoint         Endpoint, ENDPOINTS, request_body: forms in which endpoints are asked
openai_chat      OpenAIChat: OpenAI's form
connection       Connection, Failure, Route, routes_of: one address of a judge, with its price and limits
http_client      BoundedSession, BoundedFileClient: clients with a size limit and without redirects
limits           Limiter: adaptive concurrency and pace; CircuitBreaker: half-open probes while the endpoint is gone
retry_policy     is_retried, wait_s, retry_after_s, read_rate_limit: retries and rate limit headers
probe            probe, with_served_names: a look at the endpoint before anything is spent; the name of its model
redaction        KeyMask: removes the key from an endpoint's texts
"""
