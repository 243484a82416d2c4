-- guarded_runs: one row per run_id of the rubric $rubric_id up to the version $version, the newest $most_runs; none if
-- they all have one judge and every criterion is rewarded. Read first, because reward_guards reads texts of outputs.
with newest as (
    select run_id, rubric_version, judge, version
    from runs
    where status = 'published' and rubric_id = $rubric_id and version <= $version
    order by version desc
    limit $most_runs
),

unrewarded as (
    select rubric_version from rubrics
    where rubric_id = $rubric_id and list_contains(json_extract_string(body, '$.criteria[*].reward'), 'false')
),

final as (
    select run_id
    from newest
    where (select count(distinct judge) > 1 from newest)
        or (select count(*) > 0 from newest semi join unrewarded on newest.rubric_version = unrewarded.rubric_version)
    order by version
)

select * from final
