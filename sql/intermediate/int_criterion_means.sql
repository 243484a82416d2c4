-- int_criterion_means: one row per model, checkpoint, criterion_id of the rubric. Scores and rates in 0..1 over the n
-- scored outputs; sd is the sample's, null where n is 1; pass_rate is null where the criterion has no mark to pass.
with verdicts as (select * from int_verdicts where score is not null),

outputs as (select * from int_outputs),

criteria as (select * from int_criteria),

groups as (select * from int_groups),

measured as (
    select
        outputs.model,
        outputs.checkpoint,
        verdicts.criterion_id,
        count(*) as n,
        exact_mean(verdicts.score) as mean,
        exact_sd(verdicts.score) as sd,
        is_rate(verdicts.score) as is_rate,
        avg(1.0 - is_below(verdicts.score, criteria.pass_mark)::integer) as pass_rate,
    from verdicts
    inner join outputs on verdicts.output_number = outputs.output_number
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    group by outputs.model, outputs.checkpoint, verdicts.criterion_id
),

final as (
    select
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
        measured.pass_rate,
    from groups
    cross join criteria
    left join measured
        on groups.model = measured.model
        and groups.checkpoint is not distinct from measured.checkpoint
        and criteria.criterion_id = measured.criterion_id
)

select * from final
