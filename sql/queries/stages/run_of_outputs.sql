-- run_of_outputs: one row per published run_id of all rows of the outputs files $dataset_digest with the rubric
-- $rubric_digest, the latest first. column_map: JSON.
with final as (
    select run_id, coalesce(settings ->> '$.column_map', '{}') as column_map
    from runs
    where
        status = 'published'
        and dataset_digest = $dataset_digest
        and rubric_digest = $rubric_digest
        and (settings ->> '$.sample') is null
    order by version desc
)

select * from final
