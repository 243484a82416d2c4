-- step_errors: one row per source, error_type, error_subtype, severity, step_index: errors in steps of the outputs of
-- the run $run_id, as its judge marked them (source judge) or people did (source people). Of a rater's marks of a step
-- the latest count.
with latest as (
    from step_ratings
    where output_id in (select output_id from output_scores where run_id = $run_id) and step_index is not null
    qualify rank() over (
        partition by output_id, criterion_id, rater, step_index order by rated_at desc nulls last
    ) = 1
),

marks as (
    select 'judge' as source, error_type, error_subtype, severity, step_index
    from step_verdicts
    where run_id = $run_id and score < 1
    union all
    select 'people' as source, error_type, error_subtype, severity, step_index
    from latest
    where score < 1
),

final as (
    select
        source,
        coalesce(error_type, 'not named') as error_type,
        error_subtype,
        severity,
        step_index,
        count(*) as mark_count,
    from marks
    group by source, error_type, error_subtype, severity, step_index
    order by all
)

select * from final
