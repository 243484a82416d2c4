-- No output has two verdicts on one criterion.
-- severity: error
with verdicts as (select * from int_verdicts),

outputs as (select * from int_outputs),

repeated as (
    select
        output_number,
        criterion_id,
        count(*) as verdict_count,
    from verdicts
    group by output_number, criterion_id
    having count(*) > 1
),

final as (
    select
        outputs.output_id,
        repeated.criterion_id,
        repeated.verdict_count,
    from repeated
    inner join outputs on repeated.output_number = outputs.output_number
)

select * from final
