-- provenance_of: one row per output_id, criterion_id of provenance, of the outputs $output_ids of the run $run_id, in
-- the order of the outputs and of the rubric; distribution: of the judgment that counted, null without probabilities.
with final as (
    select provenance.*, judgments.distribution
    from provenance
    left join judgments on provenance.judgment_id = judgments.judgment_id
    left join criteria
        on provenance.rubric_id = criteria.rubric_id
        and provenance.rubric_version = criteria.rubric_version
        and provenance.criterion_id = criteria.criterion_id
    where provenance.run_id = $run_id and list_contains($output_ids, provenance.output_id)
    order by list_position($output_ids, provenance.output_id), criteria.position nulls last, provenance.criterion_id
)

select * from final
