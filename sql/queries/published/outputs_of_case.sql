-- outputs_of_case: one row per output_id of the run $run_id whose case or id is $name, worst score first.
with final as (
    select output_id
    from output_scores
    where run_id = $run_id and (case_id = $name or output_id = $name)
    order by score nulls last, model, checkpoint, sample_index, output_id
)

select * from final
