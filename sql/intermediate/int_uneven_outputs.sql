-- int_uneven_outputs: one row per output_number that lacks a score it is held to, or is held to criteria of its own:
-- what its scored criteria add up to is not what the rubric's do. Mostly empty.
-- materialized: table
with outputs as (select * from int_outputs),

points as (select * from int_output_points),

rubric as (select * from int_rubric),

own as (select * from int_own_totals),

final as (
    select
        outputs.output_number,
    from outputs
    cross join rubric
    left join points on outputs.output_number = points.output_number
    where points.scored_count is distinct from rubric.criterion_count
    union
    select output_number,
    from own
)

select * from final
