-- earlier_runs: one row per published run of the rubric version $rubric_id $rubric_version before the version $version,
-- newest first. identity: the judge's settings.
with final as (
    select run_id, version, judge, settings::json -> 'judge' as identity, dataset, dataset_digest, code_version
    from runs
    where
        status = 'published'
        and rubric_id = $rubric_id
        and rubric_version = $rubric_version
        and version < $version
    order by version desc
)

select * from final
