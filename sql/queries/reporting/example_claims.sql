-- example_claims: one row per output_id of $output_ids, criterion_id with checked claims in the run $run_id. claims:
-- texts `verdict: claim "quote"`, those that are not supported first; with each vote where votes differ.
with votes as (
    select
        run_id,
        output_id,
        criterion_id,
        side,
        claim_index,
        judge,
        replace(coalesce(verdict, reason, 'unscored'), '_', ' ') as said,
    from claim_verdicts
    where run_id = $run_id and list_contains($output_ids, output_id)
),

disputed as (
    select
        output_id,
        criterion_id,
        side,
        claim_index,
        ' (' || string_agg(concat(judge, ': ', said), ', ' order by judge, said) || ')' as voices,
    from votes
    group by output_id, criterion_id, side, claim_index
    having count(distinct said) > 1
),

final as (
    select
        claims.output_id,
        claims.criterion_id,
        list(
            concat(
                coalesce(replace(claims.verdict, '_', ' '), 'no verdict'),
                ': ',
                claims.claim,
                ' — “' || claims.quote || '”',
                disputed.voices
            )
            order by coalesce(claims.verdict = 'supported', false), claims.side, claims.claim_index
        ) as claims,
    from claims
    left join disputed
        on claims.output_id = disputed.output_id
        and claims.criterion_id = disputed.criterion_id
        and claims.side = disputed.side
        and claims.claim_index = disputed.claim_index
    where
        claims.run_id = $run_id
        and (claims.verdict is not null or disputed.voices is not null)
        and claims.side <> 'citation'
        and list_contains($output_ids, claims.output_id)
    group by claims.output_id, claims.criterion_id
)

select * from final
