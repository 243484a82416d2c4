-- step_errors: one row per source, error_type, error_subtype, severity, step_index: errors in steps of the outputs of
-- the run $run_id, as its judge marked them (source judge) or people did (source people): a lead's decision, else the
-- latest marks of each rater.
with chosen as (select output_id from output_scores where run_id = $run_id),

marks as (
    select 'judge' as source, error_type, error_subtype, severity, step_index
    from step_verdicts
    where run_id = $run_id and score < 1
    union all
    select 'people' as source, error_type, error_subtype, severity, step_index
    from {reporting/standing_steps}
    where score < 1 and output_id in (from chosen)
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
