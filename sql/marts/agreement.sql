-- agreement: one row per run_id, criterion_id, kind, judge, rater, statistic. Python measures them, because intervals
-- need a jackknife. n: outputs that the statistic uses. value and interval are null where undefined, with the reason;
-- never 0 instead.
-- empty without: source_agreement
with measured as (select * from source_agreement),

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
