-- claims_of_sentence: one row: the mean number of claims to check for each sentence in which earlier runs found any;
-- null without claims.
with counts as (
    select run_id, output_id, criterion_id, side, sentence, count(*) filter (where kind = 'verifiable') as claim_count
    from claims
    group by run_id, output_id, criterion_id, side, sentence
),

final as (
    select avg(claim_count) as claim_count
    from counts
)

select * from final
