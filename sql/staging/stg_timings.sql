-- stg_timings: one row per finished task; criterion_id is null where the stage has none. Times are in seconds, money is
-- in USD; saved_usd is null where replayed judgments have no known price.
with timings as (select * from source_timings),

final as (
    select
        stage,
        criterion_id,
        wall_s,
        cpu_s,
        row_count,
        replayed_count,
        case when replayed_count = 0 then coalesce(saved_usd, 0.0) else saved_usd end as saved_usd,
    from timings
)

select * from final
