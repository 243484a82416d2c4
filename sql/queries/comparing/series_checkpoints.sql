-- series_checkpoints: one row per earlier decision on a checkpoint of the model $model, other than $checkpoint, by the
-- rubric $rubric_id, whose run was compared as a look of a series, in order.
with final as (
    select
        runs.run_id,
        runs.settings::json ->> 'baseline_run_id' as baseline_run_id,
        runs.settings::json ->> 'fail_if' as fail_if,
        runs.settings::json ->> 'require' as "require",
        coalesce((runs.settings::json ->> 'across_judges')::boolean, false) as across_judges,
        coalesce(runs.settings::json ->> 'models', 'all') as models,
    from checkpoints
    inner join runs on checkpoints.run_id = runs.run_id
    where
        checkpoints.model = $model
        and checkpoints.checkpoint <> $checkpoint
        and checkpoints.rubric_id = $rubric_id
        and runs.status = 'published'
        and (runs.settings::json -> 'series' ->> 'factor') is not null
    order by runs.version
)

select * from final
