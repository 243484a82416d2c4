"""The inside of flows: what a flow does around the pipeline.

run_evaluation  publish_evaluation: one evaluation inside a flow
task_runners    opened_cluster: threads, Dask or Ray
run_ids         deployed_run_id: run id of a deployment's flow run
artifacts       show_artifacts: Prefect artifacts of a run
automations     keep_automations: automations on the server
notify          notify_checkpoint: the event of a saved checkpoint
sweep           sweep_saved: evaluations asked for forgotten checkpoints
parameters      types of the flows' parameters
"""
