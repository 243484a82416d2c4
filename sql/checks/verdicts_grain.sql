-- No output has two verdicts on one criterion.
-- severity: error
with verdicts as (select * from int_verdicts_numbered),

outputs as (select * from int_outputs_numbered),

criteria as (select * from int_criteria_weighted),

repeated as (
    select
        output_number,
        criterion_number,
        count(*) as verdict_count,
    from verdicts
    group by output_number, criterion_number
    having count(*) > 1
),

final as (
    select
        outputs.output_id,
        criteria.criterion_id,
        repeated.verdict_count,
    from repeated
    inner join outputs on repeated.output_number = outputs.output_number
    inner join criteria on repeated.criterion_number = criteria.criterion_number
)

select * from final
