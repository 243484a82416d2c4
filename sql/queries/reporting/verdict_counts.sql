-- verdict_counts: one row: how many verdicts the run $run_id has, with a score, by the judge, and from earlier
-- judgments.
with final as (
    select
        count(*) as verdict_count,
        count(score) as scored_count,
        count(request_key) as judged_count,
        count(*) filter (is_replayed) as replayed_count,
    from verdicts
    where run_id = $run_id
)

select * from final
