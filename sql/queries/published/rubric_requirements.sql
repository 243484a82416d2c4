-- rubric_requirements: one row: what the rubric of the run $run_id requires of a run. pass_threshold is 0..1.
with final as (
    select
        (rubrics.body::json ->> 'pass_threshold')::double as pass_threshold,
        coalesce((rubrics.body::json ->> 'require_thresholds')::boolean, false) as require_thresholds,
        coalesce(rubrics.body::json ->> 'missing', 'null') as missing,
    from runs
    inner join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
)

select * from final
