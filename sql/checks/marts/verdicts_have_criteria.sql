-- Every verdict is on a criterion of the rubric or on a per-case criterion of its output.
-- severity: error
with verdicts as (select * from stg_verdicts),

criteria as (select * from stg_criteria),

own as (select * from stg_case_criteria),

final as (
    select
        verdicts.output_id,
        verdicts.criterion_id,
    from verdicts
    anti join criteria on verdicts.criterion_id = criteria.criterion_id
    anti join own
        on verdicts.output_id = own.output_id
        and verdicts.criterion_id = own.criterion_id
)

select * from final
