-- unmet_conditions: one row per output_id, criterion_id of the runs $run_ids: criteria that do not apply to an output,
-- because their condition does not hold.
with final as (
    select distinct output_id, criterion_id
    from verdicts
    where
        list_contains($run_ids::varchar[], run_id)
        and starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
)

select * from final
