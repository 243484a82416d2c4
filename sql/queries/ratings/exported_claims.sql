-- exported_claims: one row per output_id, criterion_id, rater with verdicts on claims: the latest on each claim,
-- without those taken back, in order. Of the outputs of the run $run_id, or of all if it is null.
with chosen as (
    select output_id
    from output_scores
    where run_id = $run_id
),

standing as (
    from asked_claim_ratings
    where $run_id is null or output_id in (from chosen)
    qualify row_number() over (
        partition by output_id, criterion_id, rater, side, claim, question_digest order by rated_at desc nulls last
    ) = 1
),

final as (
    select
        standing.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        standing.criterion_id,
        standing.rater,
        max(standing.rated_at) as rated_at,
        list(
            {'side': side, 'claim': claim, 'verdict': verdict, 'rationale': rationale} order by side, claim
        ) as claims,
    from standing
    inner join outputs on standing.output_id = outputs.output_id
    where standing.verdict is not null
    group by all
    order by outputs.case_id, standing.output_id, standing.rater, standing.criterion_id
)

select * from final
