-- history: one row per run, model and checkpoint of score_history, oldest first: the last runs of a rubric up to a
-- version, for some models. $1: rubric_id; $2: version; $3: models; $4: the number of runs.
with history as (select * from score_history where rubric_id = $1 and version <= $2 and list_contains($3, model)),

last_runs as (select distinct version from history order by version desc limit $4),

final as (
    select
        history.*,
        coalesce(try_cast(regexp_extract(history.checkpoint, '(\d+)$', 1) as bigint), -1) as step,
    from history
    inner join last_runs on history.version = last_runs.version
    order by history.version, step, history.checkpoint, history.model
)

select * from final
