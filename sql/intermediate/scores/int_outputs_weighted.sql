-- int_outputs_weighted: one row per output_number of a sample drawn by stratum, with the stratum and the weight of its
-- case (stg_case_weights). Empty for all other runs, in which each output counts as one.
-- empty without: source_case_weights
-- materialized: table
with cases as (
    select *, dense_rank() over (order by stratum)::integer as stratum_number
    from stg_case_weights
),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        cases.stratum_number,
        cases.weight,
        cases.dataset_case_count,
    from int_outputs_numbered as outputs
    inner join cases on outputs.case_id = cases.case_id
)

select * from final
