-- history: one row per run, model, checkpoint of the rubric $rubric_id, oldest first, as in score_history: of the last
-- $most_runs runs up to the version $version that have one of the models $models.
with history as (
    select * from score_history where rubric_id = $rubric_id and version <= $version and list_contains($models, model)
),

last_runs as (select distinct version from history order by version desc limit $most_runs),

final as (
    select
        history.*,
        coalesce(try_cast(regexp_extract(history.checkpoint, '(\d+)$', 1) as bigint), -1) as step,
    from history
    inner join last_runs on history.version = last_runs.version
    order by history.version, step, history.checkpoint, history.model
)

select * from final
