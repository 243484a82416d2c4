-- latest_runs: one row per rubric_id, model, checkpoint: the most recently published run.
with latest as (
    select
        rubric_id, model, checkpoint,
        max_by(struct_pack(run_id, version, finished_at, rubric_version, dataset), version) as run,
    from score_history
    group by rubric_id, model, checkpoint
),

final as (
    select
        rubric_id,
        model,
        checkpoint,
        run.run_id,
        run.version,
        run.finished_at,
        run.rubric_version,
        run.dataset,
    from latest
)

select * from final
