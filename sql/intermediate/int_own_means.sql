-- int_own_means: one row per model, checkpoint, criterion_id that rows brought along, over the outputs that brought it.
-- Scores and rates as in int_criterion_means; category is null where the rows put it in several.
-- materialized: table
with verdicts as (select * from int_own_verdicts),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        case when min(category) = max(category) then min(category) end as category,
        count(*) as output_count,
        count(score) as n,
        exact_mean(score) as mean,
        exact_sd(score) as sd,
        is_rate(score) as is_rate,
        count(pass_mark) filter (score is not null) as pass_count,
        avg(1.0 - is_below(score, pass_mark)::integer) as pass_rate,
    from verdicts
    group by model, checkpoint, criterion_id
)

select * from final
