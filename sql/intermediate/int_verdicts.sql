-- int_verdicts: one row per output_number, criterion_id that has a verdict. score in 0..1, null where unscored.
with verdicts as (select * from stg_verdicts),

outputs as (select * from int_outputs),

final as (
    select
        outputs.output_number,
        verdicts.criterion_id,
        verdicts.score,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
)

select * from final
