-- int_samples_summed: one row per group_number whose cases all have several scored samples. sample_k is the smallest
-- number of a case's scored samples; k of a case's n samples are drawn without replacement, so that no estimate is
-- biased (Chen et al. 2021): pass_at_k, pass_hat_k and best_of_k are means over cases, 0..1, of the probability that
-- one passes, that all pass, and of the best score. Passes count in cases with sample_k known ones.
-- materialized: table
with samples as (
    select
        scores.group_number,
        outputs.case_id,
        scores.score,
        scores.is_passed,
        row_number() over (partition by scores.group_number, outputs.case_id order by scores.score nulls last) as place,
    from int_outputs_scored as scores
    inner join int_outputs_numbered as outputs on scores.output_number = outputs.output_number
),

cases as (
    select
        group_number,
        case_id,
        count(score) as n,
        count(is_passed) as known_count,
        count(*) filter (where is_passed) as passed_count,
    from samples
    group by group_number, case_id
),

drawn as (
    select group_number, min(n) as sample_k
    from cases
    group by group_number
    having min(n) > 1
),

passes as (
    select
        cases.group_number,
        exact_mean(1 - list_product(list_transform(
            range(drawn.sample_k), lambda i: greatest(known_count - passed_count - i, 0) / (known_count - i)
        ))) as pass_at_k,
        exact_mean(list_product(list_transform(
            range(drawn.sample_k), lambda i: greatest(passed_count - i, 0) / (known_count - i)
        ))) as pass_hat_k,
    from cases
    inner join drawn on cases.group_number = drawn.group_number
    where cases.known_count >= drawn.sample_k
    group by cases.group_number
),

-- The i-th lowest of n scores is the best of k with the probability C(i - 1, k - 1) / C(n, k).
bests as (
    select
        samples.group_number,
        exact_sum(samples.score * drawn.sample_k / cases.n * list_product(list_prepend(1.0, list_transform(
            range(1, drawn.sample_k), lambda j: greatest(samples.place - j, 0) / (cases.n - j)
        )))) / count(distinct samples.case_id) as best_of_k,
    from samples
    inner join cases on samples.group_number = cases.group_number and samples.case_id = cases.case_id
    inner join drawn on samples.group_number = drawn.group_number
    where samples.score is not null
    group by samples.group_number
),

final as (
    select
        drawn.group_number,
        drawn.sample_k,
        passes.pass_at_k,
        passes.pass_hat_k,
        bests.best_of_k,
    from drawn
    inner join bests on drawn.group_number = bests.group_number
    left join passes on drawn.group_number = passes.group_number
)

select * from final
