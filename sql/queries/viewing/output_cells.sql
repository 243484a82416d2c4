-- output_cells: one row per output_id of $output_ids and criterion_id of the run $run_id: its level, score (0..1),
-- status and reason of a missing score.
with final as (
    select output_id, criterion_id, level_id, score, status, reason
    from verdicts
    where run_id = $run_id and list_contains($output_ids, output_id)
    order by output_id, criterion_id
)

select * from final
