-- unscored_reasons: one row per reason of the verdicts without a score of the run $run_id, the most frequent first.
-- reason is cut at its first colon, as the rest differs from output to output; example is one of them in full. Outputs
-- that a criterion does not apply to, by its condition, are no gaps.
with unscored as (
    select coalesce(reason, 'no reason') as reason
    from verdicts
    where
        run_id = $run_id
        and status <> 'scored'
        and not starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
),

final as (
    select
        split_part(reason, ':', 1) as reason,
        count(*) as verdict_count,
        min(reason) as example,
    from unscored
    group by split_part(reason, ':', 1)
    order by verdict_count desc, reason
)

select * from final
