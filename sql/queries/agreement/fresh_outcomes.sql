-- fresh_outcomes: one row per row of given_outcomes that the table outcomes lacks, or has with another value.
-- is_changed: whether it has another.
with final as (
    select given.*, old.name is not null as is_changed
    from given_outcomes as given
    left join outcomes as old
        on given.name = old.name
        and given.grain = old.grain
        and given.output_id is not distinct from old.output_id
        and given.case_id is not distinct from old.case_id
        and given.day is not distinct from old.day
        and given.model is not distinct from old.model
    where old.name is null or given.value <> old.value or given.is_higher_better <> old.is_higher_better
)

select * from final
