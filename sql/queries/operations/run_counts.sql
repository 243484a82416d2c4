-- run_counts: one row per published run, in order: the counts of its rows in each table, and its cost in US dollars,
-- which have to add up: scores and verdicts of a run are written by other queries than its row.
with verdict_counts as (
    select
        run_id,
        count(*) as verdict_count,
        count(distinct criterion_id) as criterion_count,
        count(distinct output_id) as judged_count,
        count(*) filter (status not in ('scored', 'unscored')) as odd_count,
    from verdicts
    where (run_id, output_id, criterion_id) not in (select (run_id, output_id, criterion_id) from case_criteria)
    group by run_id
),

score_counts as (select run_id, count(*) as score_count from output_scores group by run_id),

refused as (select run_id, count(*) as refused_count from quarantine group by run_id),

read as (select run_id, max(row_count) as row_count from stage_costs where stage = 'ingest' group by run_id),

paid as (
    select run_id, sum(cost_usd) as paid_usd, count(*) - count(cost_usd) as unpriced_count
    from judgments
    group by run_id
),

final as (
    select
        runs.run_id,
        runs.output_count,
        coalesce(score_counts.score_count, 0) as score_count,
        coalesce(verdict_counts.verdict_count, 0) as verdict_count,
        coalesce(verdict_counts.criterion_count, 0) as criterion_count,
        coalesce(verdict_counts.odd_count, 0) as odd_count,
        coalesce(verdict_counts.judged_count, 0) as judged_count,
        coalesce(refused.refused_count, 0) as refused_count,
        read.row_count,
        runs.cost_usd,
        coalesce(paid.paid_usd, 0.0) as paid_usd,
        coalesce(paid.unpriced_count, 0) as unpriced_count,
        runs.trigger,
    from runs
    left join verdict_counts on runs.run_id = verdict_counts.run_id
    left join score_counts on runs.run_id = score_counts.run_id
    left join refused on runs.run_id = refused.run_id
    left join read on runs.run_id = read.run_id
    left join paid on runs.run_id = paid.run_id
    where runs.status = 'published'
    order by runs.version
)

select * from final
