-- judge_epoch: one row: the current epoch of the judge whose identity has the digest $judge_digest, the highest over
-- its anchor sets; null for a judge without a sentinel.
with final as (
    select max(epoch + (state = 'drifted')::integer) as epoch from judge_drift where judge_digest = $judge_digest
)

select * from final
