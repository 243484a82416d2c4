-- int_groups_counted: one row per model, checkpoint (null where there is none). group_number identifies the pair within
-- this run only: small integers group fastest.
-- materialized: table
with outputs as (select * from stg_outputs),

counted as (
    select
        model,
        checkpoint,
        count(*) as output_count,
    from outputs
    group by model, checkpoint
),

final as (
    select
        (row_number() over (order by model, checkpoint))::integer as group_number,
        model,
        checkpoint,
        output_count,
    from counted
)

select * from final
