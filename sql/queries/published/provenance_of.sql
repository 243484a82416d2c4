-- provenance_of: one row per output_id, criterion_id of provenance, of the outputs $output_ids of the run $run_id, in
-- the order of the outputs and of the rubric.
with final as (
    select provenance.*
    from provenance
    left join criteria
        on provenance.rubric_id = criteria.rubric_id
        and provenance.rubric_version = criteria.rubric_version
        and provenance.criterion_id = criteria.criterion_id
    where run_id = $run_id and list_contains($output_ids, output_id)
    order by list_position($output_ids, output_id), criteria.position nulls last, provenance.criterion_id
)

select * from final
