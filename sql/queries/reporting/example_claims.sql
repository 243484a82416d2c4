-- example_claims: one row per output_id of $output_ids, criterion_id with checked claims in the run $run_id. claims:
-- texts `verdict: claim "quote"`, those that are not supported first.
with final as (
    select
        output_id,
        criterion_id,
        list(
            concat(replace(verdict, '_', ' '), ': ', claim, ' — “' || quote || '”')
            order by verdict = 'supported', side, claim_index
        ) as claims,
    from claims
    where run_id = $run_id and verdict is not null and side <> 'citation' and list_contains($output_ids, output_id)
    group by output_id, criterion_id
)

select * from final
