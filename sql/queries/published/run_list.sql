-- run_list: one row per run_id, newest first in the order of the lake, not by clock. Means are those of the lowest and
-- the highest of the run's models and checkpoints, 0..1, null where no output has a score.
with scores as (
    select
        run_id,
        count(*) as model_count,
        min(mean) as lowest_mean,
        max(mean) as highest_mean,
    from run_scores
    group by run_id
),

final as (
    select
        runs.run_id,
        runs.status,
        runs.version,
        runs.rubric_id,
        runs.rubric_version,
        runs.judge,
        runs.output_count,
        runs.stopped_at,
        runs.cost_usd,
        runs.created_at,
        runs.dataset,
        runs.reason,
        scores.model_count,
        scores.lowest_mean,
        scores.highest_mean,
    from runs
    left join scores on runs.run_id = scores.run_id
    order by runs.rowid desc
)

select * from final
