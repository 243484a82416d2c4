-- example_partners: one row per output_id of $output_ids to whose case and sample another model of the run $run_id has
-- one answer: partner_id, the answer of the model with the highest mean.
with shown as (select * from output_scores where run_id = $run_id and list_contains($output_ids, output_id)),

others as (
    select model, checkpoint, case_id, sample_index, any_value(output_id) as output_id
    from output_scores
    where run_id = $run_id and case_id in (select case_id from shown)
    group by model, checkpoint, case_id, sample_index
    having count(*) = 1
),

final as (
    select
        shown.output_id,
        first(others.output_id order by means.mean desc nulls last, others.model, others.checkpoint) as partner_id,
    from shown
    inner join others
        on shown.case_id = others.case_id
        and shown.sample_index is not distinct from others.sample_index
        and (shown.model, coalesce(shown.checkpoint, '')) <> (others.model, coalesce(others.checkpoint, ''))
    left join run_scores as means
        on means.run_id = $run_id
        and others.model = means.model
        and others.checkpoint is not distinct from means.checkpoint
    group by shown.output_id
)

select * from final
