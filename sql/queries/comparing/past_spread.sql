-- past_spread: one row: the standard deviation of the differences of overall scores in the last comparison of the
-- rubric $rubric_id, null without one, and that of the scores of the run $baseline.
with compared as (
    select comparisons.sd_diff
    from run_comparisons as comparisons
    inner join runs on comparisons.run_id = runs.run_id
    where
        runs.status = 'published'
        and runs.rubric_id = $rubric_id
        and comparisons.scope = 'overall'
        and comparisons.sd_diff is not null
    order by runs.version desc, comparisons.n desc
    limit 1
),

final as (
    select
        (select sd_diff from compared) as sd_diff,
        (select stddev_samp(score) from output_scores where run_id = $baseline) as score_sd,
)

select * from final
