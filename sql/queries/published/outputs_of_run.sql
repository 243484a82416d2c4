-- outputs_of_run: one row per output of the run $run_id, by case, model, checkpoint and sample: its scores (0..1), and
-- its prompt and text.
with final as (
    select
        scores.* exclude (run_id),
        outputs.prompt,
        outputs.output,
    from output_scores as scores
    inner join outputs on scores.output_id = outputs.output_id
    where scores.run_id = $run_id
    order by scores.case_id, scores.model, scores.checkpoint, scores.sample_index, scores.output_id
)

select * from final
