"""Settings of judges, panels, cascades and endpoints.

judge     Judge, and its kinds JudgeSettings, ReplaySettings, PanelSettings, CascadeSettings: members and their votes
model     ModelSettings, Address: a model behind an endpoint, for any kind of question
files     read_judge, read_endpoint: the value of --judge or --endpoint, validated
providers with_provider: address and key of a model by its name
embedder  EmbedderSettings, StaticEmbedder, read_embedder: the value of --embedder
learned   with_learned, store_learned: settings that an endpoint taught by a refusal
keys      read_keys: keys of endpoints from the environment or a Prefect Secret block
aws_signature signed_headers, aws_secret: requests signed by AWS credentials
"""
