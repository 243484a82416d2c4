-- compared_criteria: one row per criterion_id on which at least $least_count outputs have two statements or more.
-- $criterion_id: this criterion alone; null: all.
with compared as (
    select criterion_id, output_id
    from statements
    where score is not null
    group by criterion_id, output_id
    having count(distinct (side, who)) > 1
),

final as (
    select criterion_id
    from compared
    where $criterion_id is null or criterion_id = $criterion_id
    group by criterion_id
    having count(*) >= $least_count
    order by criterion_id
)

select * from final
