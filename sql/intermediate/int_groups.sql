-- int_groups: one row per model, checkpoint (null where there is none).
with outputs as (select * from int_outputs),

final as (
    select
        model,
        checkpoint,
        count(*) as output_count,
    from outputs
    group by model, checkpoint
)

select * from final
