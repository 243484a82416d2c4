-- Every verdict is on a criterion of the rubric.
-- severity: error
with verdicts as (select * from stg_verdicts),

criteria as (select * from int_criteria),

final as (
    select
        verdicts.output_id,
        verdicts.criterion_id,
    from verdicts
    anti join criteria on verdicts.criterion_id = criteria.criterion_id
)

select * from final
