-- tried_outputs: one row per case_id, at most $most cases of the run $run_id, spread evenly from the worst to the best:
-- its output with the lowest score. score: 0..1, null where a weighted criterion is unscored.
with cases as (
    select case_id, output_id, model, checkpoint, score
    from output_scores
    where run_id = $run_id
    qualify row_number() over (partition by case_id order by score nulls first, model, checkpoint, output_id) = 1
),

ranked as (
    select
        *,
        row_number() over (order by score nulls first, case_id) - 1 as place,
        count(*) over () as case_count,
    from cases
),

final as (
    select case_id, output_id, model, checkpoint, score
    from ranked
    qualify place * $most // case_count <> lag(place * $most // case_count, 1, -1) over (order by place)
    order by place
)

select * from final
