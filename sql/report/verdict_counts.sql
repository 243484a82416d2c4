-- verdict_counts: one row: counts of a run's verdicts, of the scored ones, of the judge's, and of the replayed ones.
-- $1: the run.
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
