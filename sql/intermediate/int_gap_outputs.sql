-- int_gap_outputs: one row per output_number that lacks a score it is held to, where gaps are skipped and there is a
-- tree of categories: the shares of the others have to be worked out for this output alone. Empty in any other run.
with points as (select * from int_output_points),

held as (select * from int_held_outputs),

rubric as (select * from int_rubric where missing = 'skip' and has_tree),

-- Materialized, so that nothing is joined in a run that has no use for it.
counted as materialized (
    select
        points.output_number,
        points.weighted_count,
    from points
    cross join rubric
),

final as (
    select counted.output_number,
    from counted
    inner join held on counted.output_number = held.output_number
    where counted.weighted_count < held.weighted_count
)

select * from final
