"""Parts of the flows around the pipeline, and the client side of deployments.

prefect_stages  PrefectStages: stages as tasks of a flow run, its artifacts and events; threads, Dask or Ray
in_process      command_request: the request of a command that runs a flow in its process
names           evaluation_name, artifact_key, deployed_run_id: names in Prefect's UI, run ids, types of parameters
automations     keep_automations: automations on the server
notify          notify_checkpoint: the event of a saved checkpoint
sweep           sweep_saved: requests for checkpoints without a decision
"""
