-- overall_boxes: one row per model, checkpoint of the run $1 that has a score: how its outputs' scores spread; spread
-- as in category_boxes, mean as in run_scores.
with scores as (select * from output_scores where run_id = $1 and score is not null),

means as (select * from run_scores where run_id = $1),

final as (
    select
        scores.model,
        scores.checkpoint,
        count(*) as n,
        any_value(means.mean) as mean,
        quantile_cont(scores.score, [0.05, 0.25, 0.5, 0.75, 0.95]) as spread,
    from scores
    inner join means on scores.model = means.model and scores.checkpoint is not distinct from means.checkpoint
    group by scores.model, scores.checkpoint
)

select * from final
