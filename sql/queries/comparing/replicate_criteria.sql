-- replicate_criteria: one row per run_id of $run_ids, output_id, criterion_id: the per-case criteria.
-- gate_threshold is 0..1.
with final as (
    select unnest($run_ids) as run_id, own.*, coalesce(gates.gate_threshold, 1.0) as gate_threshold
    from run_own as own
    left join gates on own.body = gates.body
)

select * from final
