-- queue_gates: one row per output_id of the run $run_id that fails a gate; those that fail most gates first.
with final as (
    select output_id, len(failed_gates) as gate_count
    from output_scores
    where run_id = $run_id and len(failed_gates) > 0
    order by gate_count desc, output_id
)

select * from final
