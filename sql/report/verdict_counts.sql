-- verdict_counts: one row: the verdicts of a run, those with a score, the judge's, and those of earlier judgments. $1:
-- the run.
with final as (
    select
        count(*) as verdict_count,
        count(score) as scored_count,
        count(request_key) as judged_count,
        count(*) filter (is_replayed) as replayed_count,
    from verdicts
    where run_id = $1
)

select * from final
