-- unmatched_outcomes: one row, the number of rows of given_outcomes of an output or case that the lake has not, or of a
-- day without a published run.
with days as (
    select coalesce(try_cast(settings ->> '$.night' as date), (created_at at time zone 'UTC')::date) as day
    from runs
    where status = 'published'
),

final as (
    select count(*) as unmatched_count
    from given_outcomes
    where not (
        (grain = 'output' and output_id in (select output_id from outputs))
        or (grain = 'case' and case_id in (select case_id from outputs))
        or (grain = 'day' and day in (select day from days))
    )
)

select * from final
