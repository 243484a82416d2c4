"""Steps of the flows around the pipeline, and the client side of deployments.

prefect_stages  PrefectStages: stages as tasks of a flow run, its artifacts and events
in_process      asked: the request of a command that runs a flow in its process
task_runners    opened_cluster: threads, Dask or Ray
run_ids         deployed_run_id: run id of a deployment's flow run
names           evaluation_name, artifact_key: names in Prefect's UI
automations     keep_automations: automations on the server
notify          notify_checkpoint: the event of a saved checkpoint
sweep           sweep_saved: requests for checkpoints without a decision
parameters      types of the flows' parameters
"""
