-- stg_agreement: one row per criterion_id, kind, judge, rater, statistic, as measured outside SQL.
with source as (select * from source_agreement),

final as (
    select
        criterion_id,
        kind,
        judge,
        rater,
        n,
        pair_count,
        statistic,
        value,
        ci_low,
        ci_high,
        reason,
    from source
)

select * from final
