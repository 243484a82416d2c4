-- claims_to_rate: one row per output_id of $output_ids, criterion_id, side, claim of the run $run_id that can be
-- checked, in the order of the texts. A claim that is made twice is rated once.
with final as (
    select output_id, criterion_id, side, claim, start, span, quote
    from claims
    where
        run_id = $run_id
        and kind = 'verifiable'
        and side in ('output', 'reference')
        and list_contains($output_ids, output_id)
    qualify row_number() over (partition by output_id, criterion_id, side, claim order by claim_index) = 1
    order by output_id, criterion_id, side, claim_index
)

select * from final
