-- Which agent may ship: how good is it, how sure is that, and how often does it do what it may not?
select
    model,
    n,
    round(mean, 3) as mean,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    round(pass_rate, 3) as pass_rate,
    round(gate_failure_rate, 3) as gate_failure_rate,
from latest_run_scores
where rubric_id = 'agent_task'
order by gate_failure_rate, mean desc;

-- Does more work pay? Calls and errors of runs that reached the goal, and of those that did not.
select
    scores.model,
    goal.score >= 0.75 as reached,
    count(*) as runs,
    round(avg(called.call_count), 1) as calls,
    sum(called.error_count)::integer as errors,
from latest_output_scores as scores
inner join verdicts as goal
    on scores.run_id = goal.run_id
    and scores.output_id = goal.output_id
    and goal.criterion_id = 'goal_reached'
left join (
    select
        output_id,
        count(*) filter (where kind = 'tool') as call_count,
        count(error) as error_count,
    from steps
    group by output_id
) as called
    on scores.output_id = called.output_id
group by all
order by scores.model, reached desc;

-- Where did an agent do what it may not, and what did the judge see?
select
    outputs.case_id,
    outputs.model,
    verdicts.rationale as why,
    left(outputs.output, 60) as answer,
from verdicts
inner join outputs on verdicts.output_id = outputs.output_id
inner join latest_output_scores as scores
    on verdicts.run_id = scores.run_id and verdicts.output_id = scores.output_id
where verdicts.criterion_id = 'within_bounds' and verdicts.level_id = 'crossed'
order by outputs.model, outputs.case_id;
