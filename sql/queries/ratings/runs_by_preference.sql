-- runs_by_preference: one row per published run that has outputs of new_ratings and criteria by preference, in order.
with final as (
    select runs.run_id
    from runs
    where
        runs.status = 'published'
        and runs.run_id in (
            select scores.run_id
            from output_scores as scores
            inner join new_ratings as given on scores.output_id = given.output_id
        )
        and (runs.rubric_id, runs.rubric_version) in (
            select (rubric_id, rubric_version) from criteria where method = 'preference'
        )
    order by runs.version, runs.run_id
)

select * from final
