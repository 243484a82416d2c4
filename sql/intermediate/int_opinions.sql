-- int_opinions: one row per output_number, criterion_id, judge, replicate, is_swapped that gave a level. score in 0..1.
-- materialized: table
with opinions as (select * from stg_opinions where score is not null),

outputs as (select * from int_outputs),

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
