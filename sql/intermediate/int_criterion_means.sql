-- int_criterion_means: one row per model, checkpoint, criterion_id of the rubric. Scores and rates in 0..1 over the n
-- scored outputs; sd is the sample's, null where n is 1; pass_rate is null where the criterion has no mark to pass.
-- materialized: table
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

groups as (select * from int_groups),

-- Levels have few scores: what millions of verdicts share is worked out once.
counted as (
    select
        group_number,
        criterion_number,
        score,
        count(*) as n,
    from verdicts
    group by group_number, criterion_number, score
),

measured as (
    select
        counted.group_number,
        counted.criterion_number,
        sum(counted.n)::bigint as n,
        mean_of_counted(counted.score, counted.n) as mean,
        sd_of_counted(counted.score, counted.n) as sd,
        is_rate(counted.score) as is_rate,
        coalesce(sum(counted.n) filter (is_below(counted.score, criteria.pass_mark)), 0)::bigint as below_mark_count,
    from counted
    inner join criteria on counted.criterion_number = criteria.criterion_number
    group by counted.group_number, counted.criterion_number
),

final as (
    select
        groups.group_number,
        groups.model,
        groups.checkpoint,
        criteria.criterion_id,
        criteria.category,
        criteria.weight_share,
        groups.output_count,
        coalesce(measured.n, 0) as n,
        measured.mean,
        measured.sd,
        measured.is_rate,
        case when criteria.pass_mark is null then 0 else coalesce(measured.n, 0) end as pass_count,
        case when criteria.pass_mark is not null then (measured.n - measured.below_mark_count) / measured.n end
            as pass_rate,
    from groups
    cross join criteria
    left join measured
        on groups.group_number = measured.group_number
        and criteria.criterion_number = measured.criterion_number
)

select * from final
