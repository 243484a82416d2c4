-- compared_criteria: one row per criterion_id of the runs $run_a and $run_b. part counts from 0: the criteria of a part
-- are compared at a time; they have about $part_rows verdicts, or one criterion has more.
with counted as (
    select criterion_id, count(*) as n
    from verdicts
    where run_id in ($run_a, $run_b)
    group by criterion_id
),

final as (
    select criterion_id, ((sum(n) over (order by criterion_id) - n) // $part_rows)::integer as part
    from counted
)

select * from final
