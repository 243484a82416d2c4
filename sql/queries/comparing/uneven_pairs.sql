-- uneven_pairs: one row per place with an output on each side, in order: the weight of the pair, by which each case
-- counts once; dataset_case_count: cases. Empty where all cases have as many pairs.
with paired as (
    select place, any_value(case_id) as case_id,
    from compared_outputs
    where has_partner
    group by place
),

weighed as (
    select place, 1.0 / count(*) over (partition by case_id) as weight,
    from paired
),

final as (
    select
        place,
        0::bigint as code,
        weight,
        (select count(distinct case_id) from paired) as dataset_case_count,
        false as is_other,
    from weighed
    where (select min(weight) < max(weight) from weighed)
    order by place
)

select * from final
