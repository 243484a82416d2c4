-- agreement: one row per run_id, criterion_id, kind, judge, rater, statistic. Measured outside SQL, where a bootstrap
-- can be drawn: value is null where it is undefined, the interval where it is; reason says why, never a 0.
with measured as (select * from stg_agreement),

run as (select * from stg_run),

final as (
    select
        run.run_id,
        measured.criterion_id,
        measured.kind,
        measured.judge,
        measured.rater,
        measured.n,
        measured.pair_count,
        measured.statistic,
        measured.value,
        measured.ci_low,
        measured.ci_high,
        measured.reason,
    from measured
    cross join run
)

select * from final
