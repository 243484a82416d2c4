-- known_claims: one row per output_id of $output_ids, criterion_id, side, claim that a run found and could check.
with final as (
    select distinct output_id, criterion_id, side, claim
    from claims
    where kind = 'verifiable' and list_contains($output_ids, output_id)
)

select * from final
