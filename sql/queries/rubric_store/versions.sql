-- versions: one row per rubric version, by rubric, newest first: its kind of output, its state, how many criteria it
-- has, and how many published runs used it.
with used as (
    select
        rubric_id,
        rubric_version,
        count(*) filter (status = 'published') as run_count,
        max(finished_at) filter (status = 'published') as last_used_at,
    from runs
    group by rubric_id, rubric_version
),

counted as (
    select rubric_id, rubric_version, count(*) as criterion_count
    from criteria
    group by rubric_id, rubric_version
),

final as (
    select
        rubrics.rubric_id,
        rubrics.rubric_version,
        rubrics.body ->> 'target_type' as target_type,
        coalesce(states.state, 'active') as state,
        pointers.rubric_version is not null as is_latest,
        coalesce(counted.criterion_count, 0) as criterion_count,
        coalesce(used.run_count, 0) as run_count,
        used.last_used_at,
        rubrics.digest,
    from rubrics
    left join used
        on rubrics.rubric_id = used.rubric_id
        and rubrics.rubric_version = used.rubric_version
    left join counted
        on rubrics.rubric_id = counted.rubric_id
        and rubrics.rubric_version = counted.rubric_version
    left join rubric_pointers as pointers
        on rubrics.rubric_id = pointers.rubric_id
        and rubrics.rubric_version = pointers.rubric_version
    left join rubric_states as states
        on rubrics.rubric_id = states.rubric_id
        and rubrics.rubric_version = states.rubric_version
    order by
        rubrics.rubric_id,
        list_transform(string_split(rubrics.rubric_version, '.'), lambda part: part::bigint) desc
)

select * from final
