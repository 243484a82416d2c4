-- overall_noise: one row: the variance of an overall score (0..1) of the run $run_id by the judge's noise, as the mean
-- of its replies has it, those of all judges of a panel among them, with independent errors of the criteria; null
-- without several replies to a question.
with noise as (
    select criterion_id, avg(judge_variance * n / opinion_count) as variance
    from judge_noise
    where run_id = $run_id and judge_variance is not null
    group by criterion_id
),

weighted as (
    select criteria.criterion_id, criteria.effective_weight as weight
    from criteria
    inner join runs
        on criteria.rubric_id = runs.rubric_id and criteria.rubric_version = runs.rubric_version
    where runs.run_id = $run_id
),

final as (
    select
        sum(weighted.weight ** 2 * noise.variance) / (select sum(greatest(weight, 0)) from weighted) ** 2 as variance,
    from noise
    inner join weighted on noise.criterion_id = weighted.criterion_id
)

select * from final
