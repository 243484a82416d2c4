-- stg_verdicts: one row per output_id, criterion_id. score is in 0..1, null where unscored.
with verdicts as (select * from source_verdicts),

final as (
    select
        output_id,
        criterion_id,
        status,
        score,
        reason,
    from verdicts
)

select * from final
