-- verdict_counts: one row: how many verdicts the run $run_id has, with a score, by the judge, and from earlier
-- judgments; without outputs that a criterion does not apply to, by its condition.
with final as (
    select
        count(*) as verdict_count,
        count(score) as scored_count,
        count(request_key) as judged_count,
        count(*) filter (is_replayed) as replayed_count,
    from verdicts
    where
        run_id = $run_id
        and not starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
)

select * from final
