-- outputs_by_id: one row per output of the run $run_id that is in the list $output_ids.
with final as (
    select output_id, case_id, model, checkpoint
    from output_scores
    where run_id = $run_id and output_id in (select unnest($output_ids))
)

select * from final
