-- category_boxes: one row per category, model, checkpoint that has a score: how its outputs' scores spread, over the
-- models of sql/ built for one run. spread: the scores that 5%, 25%, 50%, 75% and 95% of the n outputs do not exceed,
-- interpolated.
with scores as (select * from int_category_scores where score is not null),

groups as (select * from int_groups),

final as (
    select
        scores.category,
        groups.model,
        groups.checkpoint,
        count(*) as n,
        exact_mean(scores.score) as mean,
        quantile_cont(scores.score, [0.05, 0.25, 0.5, 0.75, 0.95]) as spread,
    from scores
    inner join groups on scores.group_number = groups.group_number
    group by scores.category, groups.model, groups.checkpoint
)

select * from final
