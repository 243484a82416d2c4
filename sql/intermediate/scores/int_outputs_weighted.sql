-- int_outputs_weighted: one row per output_number with a weight: that of its case's outputs, and its stratum
-- (int_cases_weighted). Empty for most runs, in which each output counts as one.
-- empty without: int_cases_weighted
-- materialized: table
with final as (
    select
        outputs.output_number,
        outputs.group_number,
        cases.case_number,
        cases.stratum_number,
        cases.shared_weight,
        cases.weight,
        cases.case_weight,
        cases.dataset_case_count,
    from int_outputs_numbered as outputs
    inner join int_cases_weighted as cases
        on outputs.group_number = cases.group_number
        and outputs.case_id = cases.case_id
)

select * from final
