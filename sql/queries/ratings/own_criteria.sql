-- own_criteria: one row per output_id, criterion_id of a per-case criterion of the run $run_id, in the order of the
-- row: its method and its body (JSON).
with final as (
    select output_id, criterion_id, method, body
    from case_criteria
    where run_id = $run_id
    order by rowid
)

select * from final
