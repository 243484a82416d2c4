-- run_list: one row per run_id, newest first in the order of the lake, not by clock. Means are those of the lowest and
-- the highest of the run's models and checkpoints, 0..1, null where no output has a score. weakest_id, weakest_mean:
-- the weighted criterion with the lowest mean of all its models, of equal ones the first of the rubric.
with weakest as (
    select
        scores.run_id,
        arg_min(
            struct_pack(scores.criterion_id, scores.mean),
            struct_pack(scores.mean, place := coalesce(criteria.position, 1e9), scores.criterion_id)
        ) as weakest,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    where scores.weight > 0
    group by scores.run_id
),

scores as (
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
        runs.trigger,
        scores.model_count,
        scores.lowest_mean,
        scores.highest_mean,
        weakest.weakest.criterion_id as weakest_id,
        weakest.weakest.mean as weakest_mean,
    from runs
    left join scores on runs.run_id = scores.run_id
    left join weakest on runs.run_id = weakest.run_id
    order by runs.rowid desc
)

select * from final
