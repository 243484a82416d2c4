"""Batch jobs of an endpoint: open questions asked at half the price, ahead of the scoring.

run       ask_in_batches: recover, submit, poll and ingest the batches of a run
job       BatchJob, BatchContext, Patience: what a run asks, and what it works with
state     BatchRecord, Intent, has_open_batches: the batches of a run, on disk
files     write_request_files, index_replies: JSON Lines files of requests and replies
endpoint  BatchEndpoint: the Batch APIs of OpenAI's and Anthropic's forms
"""
