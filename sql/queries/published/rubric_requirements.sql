-- rubric_requirements: one row: what the rubric of the run $run_id requires of a run. pass_threshold, alpha and
-- max_failure_rate are 0..1, null where the rubric states none. is_weighted: cases were drawn by stratum, or the notes
-- hold $each_case_once: cases with unlike numbers of outputs count once each.
with final as (
    select
        (rubrics.body::json ->> 'pass_threshold')::double as pass_threshold,
        coalesce((rubrics.body::json ->> 'require_thresholds')::boolean, false) as require_thresholds,
        coalesce(rubrics.body::json ->> 'missing', 'null') as missing,
        rubrics.body::json ->> 'decide' as decide,
        (rubrics.body::json ->> 'alpha')::double as alpha,
        (rubrics.body::json ->> 'max_failure_rate')::double as max_failure_rate,
        (runs.settings ->> '$.stratify') is not null
        or coalesce(contains(array_to_string(runs.notes, chr(10)), $each_case_once), false) as is_weighted,
    from runs
    inner join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
    where runs.run_id = $run_id
)

select * from final
