-- score_distribution: one row per run_id, model, checkpoint, score. n outputs have this score; share (0..1) of the
-- scored outputs are at or below it. Scores are exact; a group with more than 1,000 of them is rounded to 3 digits.
with scores as (select * from output_scores),

exact as (
    select
        run_id,
        model,
        checkpoint,
        score,
        count(*) as n,
        count(*) over (partition by run_id, model, checkpoint) as distinct_count,
    from scores
    where score is not null
    group by run_id, model, checkpoint, score
),

bounded as (
    select
        run_id,
        model,
        checkpoint,
        if(distinct_count > 1000, round(score, 3), score) as score,
        sum(n)::bigint as n,
    from exact
    group by all
),

final as (
    select
        run_id,
        model,
        checkpoint,
        score,
        n,
        sum(n) over (partition by run_id, model, checkpoint order by score)
            / sum(n) over (partition by run_id, model, checkpoint) as share,
    from bounded
)

select * from final
