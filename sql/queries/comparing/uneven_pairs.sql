-- uneven_pairs: one row per place with an output on each side, in order: the number of its case, from 0. Empty where
-- all cases have as many pairs.
with paired as (
    select place, any_value(case_id) as case_id,
    from compared_outputs
    where has_partner
    group by place
),

counted as (
    select
        place,
        dense_rank() over (order by case_id) - 1 as uneven_case,
        count(*) over (partition by case_id) as n,
    from paired
),

final as (
    select place, uneven_case,
    from counted
    where (select min(n) < max(n) from counted)
    order by place
)

select * from final
