-- int_own_criteria: one row per output_number, criterion_id that the output's row brought along; mostly empty.
-- criterion_number stands for the id as in int_criteria, below 0 here.
-- materialized: table
with criteria as (select * from stg_case_criteria),

outputs as (select * from int_outputs),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        outputs.model,
        outputs.checkpoint,
        -dense_rank() over (order by criteria.criterion_id) as criterion_number,
        criteria.criterion_id,
        criteria.category,
        criteria.weight,
        criteria.weight <> 0 as is_weighted,
        criteria.is_gate,
        criteria.threshold,
        case when criteria.is_gate then criteria.gate_threshold else criteria.threshold end as pass_mark,
    from criteria
    inner join outputs on criteria.output_id = outputs.output_id
)

select * from final
