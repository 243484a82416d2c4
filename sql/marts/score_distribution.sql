-- score_distribution: one row per run_id, model, checkpoint, score. n is the count of outputs with this score; share
-- (0..1) is the part of the scored outputs at or below it, weighted by int_measures_weighted. Scores are exact; in a
-- group with more than 1,000 distinct scores they are rounded to 3 digits.
with run as (select * from stg_run),

groups as (select * from int_groups_counted),

scores as (
    select scores.*, weights.score_weight as weight
    from int_outputs_scored as scores
    left join int_measures_weighted as weights
        on weights.scope = 'run'
        and scores.output_number = weights.output_number
    where scores.score is not null
),

exact as (
    select
        group_number,
        score,
        count(*) as n,
        coalesce(sum(weight), count(*)) as weight,
        count(*) over (partition by group_number) as distinct_count,
    from scores
    group by group_number, score
),

bounded as (
    select
        group_number,
        if(distinct_count > 1000, round(score, 3), score) as score,
        sum(n)::bigint as n,
        sum(weight) as weight,
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
        sum(bounded.weight) over (partition by groups.group_number order by bounded.score)
            / sum(bounded.weight) over (partition by groups.group_number) as share,
    from bounded
    inner join groups on bounded.group_number = groups.group_number
    cross join run
)

select * from final
