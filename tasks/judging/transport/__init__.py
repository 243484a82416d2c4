"""Routes to an endpoint: HTTP, rate limits, retries and the circuit breaker.

route            Route, routes_of: one address of a judge with its price, limiter and circuit breaker
endpoint         Endpoint, Failure, request_body: requests and replies of one address
http_client      BoundedSession, BoundedFileClient: clients with a size limit and without redirects
rate_limiter     Limiter: adaptive concurrency limit
token_bucket     Bucket: requests or tokens per minute
circuit_breaker  CircuitBreaker: half-open probes while the endpoint is gone
retry_policy     is_retried, wait_s, retry_after_s, read_rate_limit: retries and rate limit headers
probe            probe: a look at the endpoint before anything is spent
redaction        KeyMask: removes the key from an endpoint's texts
metrics          logs and traces of requests
"""
