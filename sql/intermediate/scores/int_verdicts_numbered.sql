-- int_verdicts_numbered: one row per output_number, criterion_number with a verdict. score is in 0..1, null where
-- unscored.
-- materialized: file
with verdicts as (select * from stg_verdicts),

outputs as (select * from int_outputs_numbered),

rubric_criteria as (select * from int_criteria_weighted where not is_per_case),

case_criteria as (select * from int_criteria_weighted where is_per_case),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        coalesce(rubric_criteria.criterion_number, case_criteria.criterion_number) as criterion_number,
        verdicts.score,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    left join rubric_criteria on verdicts.criterion_id = rubric_criteria.criterion_id
    left join case_criteria
        on outputs.output_number = case_criteria.output_number
        and verdicts.criterion_id = case_criteria.criterion_id
    where coalesce(rubric_criteria.criterion_number, case_criteria.criterion_number) is not null
)

select * from final
