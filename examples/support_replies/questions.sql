-- Which model may ship: how good is it, how sure is that, how many replies pass, and how many fail a gate?
select
    model,
    n,
    round(mean, 3) as mean,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    round(pass_rate, 3) as pass_rate,
    round(gate_failure_rate, 3) as gate_failure_rate,
from latest_run_scores
where rubric_id = 'support_replies'
order by gate_failure_rate, mean desc;

-- On which criteria do the two models differ most?
select
    large.criterion_id,
    large.category,
    round(large.mean, 3) as large_mean,
    round(small.mean, 3) as small_mean,
    round(large.mean - small.mean, 3) as difference,
from latest_criterion_scores as large
inner join latest_criterion_scores as small
    on large.criterion_id = small.criterion_id
    and large.model = 'support-large'
    and small.model = 'support-small'
order by abs(difference) desc nulls last, large.criterion_id;

-- Which are the five worst replies of the smaller model, and why: a failed gate, or else the judged criterion that cost most?
select
    scores.case_id,
    round(scores.score, 3) as score,
    case
        when len(scores.failed_gates) > 0
            then 'failed gate: ' || array_to_string(scores.failed_gates, ', ')
        else weakest.criterion_id || ': ' || weakest.rationale
    end as why,
    left(outputs.output, 80) as output_start,
from latest_output_scores as scores
inner join outputs on scores.output_id = outputs.output_id
left join (
    select
        verdicts.run_id,
        verdicts.output_id,
        arg_max(verdicts.criterion_id, weight * (1 - score)) as criterion_id,
        arg_max(verdicts.rationale, weight * (1 - score)) as rationale,
    from verdicts
    inner join (
        select distinct run_id, criterion_id, weight from criterion_scores
    ) as criteria
        on verdicts.run_id = criteria.run_id
        and verdicts.criterion_id = criteria.criterion_id
    where verdicts.score is not null and verdicts.rationale is not null
    group by verdicts.run_id, verdicts.output_id
) as weakest
    on scores.run_id = weakest.run_id
    and scores.output_id = weakest.output_id
where scores.model = 'support-small'
order by len(scores.failed_gates) > 0 desc, scores.score, scores.case_id
limit 5;
