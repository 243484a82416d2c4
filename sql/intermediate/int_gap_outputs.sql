-- int_gap_outputs: one row per output_number that lacks a score it is held to, where gaps are skipped and there is a
-- tree of categories: the shares of the others have to be worked out for this output alone. Empty in any other run.
-- materialized: table
with totals as (select * from int_uneven_totals),

held as (select * from int_held_outputs),

rubric as (select * from int_rubric where missing = 'skip' and has_tree),

final as (
    select totals.output_number,
    from totals
    cross join rubric
    inner join held on totals.output_number = held.output_number
    where totals.weighted_count < held.weighted_count
)

select * from final
