-- score_distribution: one row per run_id, model, checkpoint, score. n is the count of outputs with this score; share
-- (0..1) is the part of the scored outputs at or below it. Scores are exact; in a group with more than 1,000 distinct
-- scores they are rounded to 3 digits.
with run as (select * from stg_run),

groups as (select * from int_groups_counted),

scores as (select * from int_outputs_scored where score is not null),

exact as (
    select
        group_number,
        score,
        count(*) as n,
        count(*) over (partition by group_number) as distinct_count,
    from scores
    group by group_number, score
),

bounded as (
    select
        group_number,
        if(distinct_count > 1000, round(score, 3), score) as score,
        sum(n)::bigint as n,
    from exact
    group by all
),

final as (
    select
        run.run_id,
        groups.model,
        groups.checkpoint,
        bounded.score,
        bounded.n,
        sum(bounded.n) over (partition by groups.group_number order by bounded.score)
            / sum(bounded.n) over (partition by groups.group_number) as share,
    from bounded
    inner join groups on bounded.group_number = groups.group_number
    cross join run
)

select * from final
