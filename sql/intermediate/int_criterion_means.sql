-- int_criterion_means: one row per model, checkpoint, criterion_id of the rubric. Scores and rates in 0..1 over the n
-- scored outputs; sd is the sample's, null where n is 1; pass_rate is null where the criterion has no mark to pass.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

groups as (select * from int_groups),

measured as (
    select
        verdicts.group_number,
        verdicts.criterion_number,
        count(*) as n,
        exact_mean(verdicts.score) as mean,
        exact_sd(verdicts.score) as sd,
        is_rate(verdicts.score) as is_rate,
        countif(is_below(verdicts.score, criteria.pass_mark)) as below_mark_count,
    from verdicts
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    group by verdicts.group_number, verdicts.criterion_number
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
