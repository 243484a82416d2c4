-- latest_rubrics: one row per rubric_id: its highest version, and when that was stored.
with numbered as (
    select *, list_transform(string_split(rubric_version, '.'), lambda part: try_cast(part as bigint)) as numbers
    from rubrics
),

final as (
    select rubric_id, max_by(rubric_version, numbers) as rubric_version, max_by(created_at, numbers) as set_at
    from numbered
    group by rubric_id
)

select * from final
