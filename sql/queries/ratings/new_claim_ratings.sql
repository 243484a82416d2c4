-- new_claim_ratings: one row per verdict on a claim in the relation given_claims that the table claim_ratings lacks,
-- whatever file it was read from.
with final as (
    select given_claims.*
    from given_claims
    anti join claim_ratings as kept
        on given_claims.output_id = kept.output_id
        and given_claims.criterion_id = kept.criterion_id
        and given_claims.rater = kept.rater
        and given_claims.side = kept.side
        and given_claims.claim = kept.claim
        and given_claims.verdict is not distinct from kept.verdict
        and given_claims.rationale is not distinct from kept.rationale
        and given_claims.rated_at is not distinct from kept.rated_at
)

select * from final
