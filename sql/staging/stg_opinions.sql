-- stg_opinions: one row per output_id, criterion_id, judge, replicate, is_swapped. score is in 0..1, null where
-- unscored.
with opinions as (select * from source_opinions),

final as (
    select
        output_id,
        criterion_id,
        judge,
        replicate,
        is_swapped,
        status,
        level_id,
        score,
    from opinions
)

select * from final
