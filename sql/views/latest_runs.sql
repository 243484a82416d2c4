-- latest_runs: one row per rubric_id, model, checkpoint: the published run that scored it last.
with final as (
    select
        rubric_id, model, checkpoint,
        max_by(run_id, version) as run_id,
        max(version) as version,
        max_by(finished_at, version) as finished_at,
        max_by(rubric_version, version) as rubric_version,
        max_by(dataset, version) as dataset,
    from score_history
    group by rubric_id, model, checkpoint
)

select * from final
