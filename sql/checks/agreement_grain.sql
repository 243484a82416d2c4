-- No criterion, kind, judge, rater and statistic have two rows of agreement.
-- severity: error
-- empty without: agreement
with measured as (select * from agreement),

final as (
    select
        criterion_id,
        kind,
        judge,
        rater,
        statistic,
        count(*) as row_count,
    from measured
    group by criterion_id, kind, judge, rater, statistic
    having count(*) > 1
)

select * from final
