-- unfilled_rubrics: one row per rubric version without levels, or with criteria without a position, as stored by
-- earlier versions of gradebook: its body (JSON).
with final as (
    select body
    from rubrics
    where
        body is not null
        and (
            (rubric_id, rubric_version) in (select (rubric_id, rubric_version) from criteria where position is null)
            or (rubric_id, rubric_version) not in (select (rubric_id, rubric_version) from levels)
        )
)

select * from final
