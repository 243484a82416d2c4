"""Steps of the flows around the pipeline, and the client side of deployments.

run_evaluation  publish_evaluation: one evaluation inside a flow
task_runners    opened_cluster: threads, Dask or Ray
run_ids         deployed_run_id: run id of a deployment's flow run
names           evaluation_name, artifact_key: names in Prefect's UI
artifacts       show_artifacts: Prefect artifacts of a run
automations     keep_automations: automations on the server
notify          notify_checkpoint: the event of a saved checkpoint
sweep           sweep_saved: requests for checkpoints without a decision
parameters      types of the flows' parameters
"""
