-- int_opinions_numbered: one row per output_number, criterion_id, judge, replicate, is_swapped with a level. score is
-- in 0..1.
-- materialized: table
with opinions as (select * from stg_opinions where score is not null),

outputs as (select * from int_outputs_numbered),

final as (
    select
        outputs.output_number,
        outputs.model,
        outputs.checkpoint,
        opinions.criterion_id,
        opinions.judge,
        opinions.replicate,
        opinions.is_swapped,
        opinions.level_id,
        opinions.score,
    from opinions
    inner join outputs on opinions.output_id = outputs.output_id
)

select * from final
