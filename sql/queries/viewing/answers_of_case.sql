-- answers_of_case: one row per run_id of run_ids and output_id of the case $case_id, by model and sample, at
-- most 200.
with final as (
    select run_id, output_id, model, checkpoint, sample_index, score
    from output_scores
    where case_id = $case_id and run_id in ({run_ids})
    order by model, checkpoint, sample_index, output_id
    limit 200
)

select * from final
