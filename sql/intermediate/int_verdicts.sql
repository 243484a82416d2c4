-- int_verdicts: one row per output_number, criterion_number that has a verdict. score in 0..1, null where unscored.
-- materialized: file
with verdicts as (select * from stg_verdicts),

outputs as (select * from int_outputs),

criteria as (
    select criterion_id, criterion_number,
    from int_criteria
    union
    select criterion_id, criterion_number,
    from int_own_criteria
),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        criteria.criterion_number,
        verdicts.score,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
)

select * from final
