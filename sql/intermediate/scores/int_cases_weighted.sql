-- int_cases_weighted: one row per group_number, case_id whose outputs have weights: in a sample drawn by stratum those
-- of the case (stg_case_weights); where cases have unlike numbers of outputs, over that number, unless the run's
-- weights are those of outputs. 1e9 on average. shared_weight: what the outputs share, null where weight is not over
-- their number. case_weight: that of the case as a whole. stratum_number: 0 without strata. Empty for all other groups.
-- materialized: table
with counted as (
    select group_number, case_id, count(*) as n,
    from int_outputs_numbered
    group by group_number, case_id
),

groups as (
    select
        counted.group_number,
        count(*) as case_count,
        sum(n) / count(*) as usual_n,
        any_value(run.weights) = 'cases' and min(n) < max(n) as is_uneven,
    from counted
    cross join stg_run as run
    group by counted.group_number
),

strata as (
    select *, dense_rank() over (order by stratum)::integer as stratum_number,
    from stg_case_weights
),

final as (
    select
        counted.group_number,
        counted.case_id,
        (row_number() over ())::integer as case_number,
        coalesce(strata.stratum_number, 0) as stratum_number,
        case when groups.is_uneven then coalesce(strata.weight, 1e9) * groups.usual_n end::double as shared_weight,
        if(shared_weight is null, strata.weight, greatest(round(shared_weight / counted.n), 1.0))::bigint as weight,
        coalesce(strata.weight, 1000000000)::bigint as case_weight,
        coalesce(strata.dataset_case_count, groups.case_count)::double as dataset_case_count,
    from counted
    inner join groups on counted.group_number = groups.group_number
    left join strata on counted.case_id = strata.case_id
    where groups.is_uneven or strata.weight is not null
)

select * from final
