-- paired_strata: one row per place with an output on each side, in order: the stratum and the weight of its case in the
-- sample of side b, else of side a. dataset_case_count: cases that the sample was drawn from; is_other: whether both
-- sides drew the case, by another stratum or rate. Empty if neither side drew by stratum.
with places as (
    select
        place,
        coalesce(max(stratum) filter (side = 'b'), max(stratum) filter (side = 'a')) as stratum,
        coalesce(max(inclusion_rate) filter (side = 'b'), max(inclusion_rate) filter (side = 'a')) as inclusion_rate,
        min(stratum) <> max(stratum) or abs(min(inclusion_rate) - max(inclusion_rate)) > 1e-12 as is_other,
    from compared_outputs
    where has_partner
    group by place
),

drawn as (
    select distinct side, case_id, inclusion_rate
    from compared_outputs
    where inclusion_rate is not null
),

final as (
    select
        place,
        (dense_rank() over (order by stratum) - 1)::bigint as code,
        1.0 / inclusion_rate as weight,
        (select sum(1.0 / inclusion_rate) from drawn group by side order by side desc limit 1) as dataset_case_count,
        is_other,
    from places
    where inclusion_rate is not null
    order by place
)

select * from final
