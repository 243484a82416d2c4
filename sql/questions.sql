-- How did a model's mean change from run to run? `score_history` has the previous run in each row.
select run_id, finished_at, rubric_version, model, checkpoint, mean, ci_low, ci_high, change,
    is_same_rubric, is_same_dataset
from score_history
where rubric_id = 'support_replies'
order by model, version;

-- What is the current score of every model, each by the run that scored it last?
select scores.model, scores.checkpoint, scores.mean, scores.ci_low, scores.ci_high, scores.pass_rate, latest.finished_at
from run_scores as scores
inner join latest_runs as latest
    on scores.run_id = latest.run_id
    and scores.model = latest.model
    and scores.checkpoint is not distinct from latest.checkpoint
where latest.rubric_id = 'support_replies'
order by scores.mean desc nulls last;

-- Which criteria fell most in the last run of each rubric?
select run_id, model, checkpoint, criterion_id, previous_mean, mean, change
from criterion_history
where change < 0 and run_id in (select run_id from latest_run_scores)
order by change
limit 10;

-- Which criteria have too few verdicts to trust their mean, and why?
select run_id, criterion_id, reason, count(*) as unscored_count
from verdicts
where status = 'unscored' and run_id in (select run_id from latest_run_scores)
group by run_id, criterion_id, reason
order by unscored_count desc, criterion_id;

-- Which outputs changed most between the last two runs of one rubric?
with last_two as (
    select run_id, row_number() over (partition by rubric_id order by version desc) as age
    from runs
    where status = 'published' and rubric_id = 'support_replies'
)

select new.case_id, new.model, old.score as old_score, new.score as new_score, new.score - old.score as change
from output_scores as new
inner join output_scores as old
    on new.case_id = old.case_id and new.model = old.model and new.sample_index = old.sample_index
where new.run_id = (select run_id from last_two where age = 1)
    and old.run_id = (select run_id from last_two where age = 2)
order by abs(new.score - old.score) desc nulls last
limit 20;

-- What did each judge cost in each month, and what did the ledger save?
select
    strftime(finished_at, '%Y-%m') as month,
    judge,
    sum(request_count) as request_count,
    sum(cost_usd) as cost_usd,
    sum(saved_usd) as saved_usd
from cost_history
group by month, judge
order by month, judge;

-- Which outputs of a run are the worst, and what is their feedback?
select worst.run_id, worst.place, worst.case_id, worst.score, worst.failed_gates, words.feedback
from worst_outputs as worst
inner join output_feedback as words on worst.run_id = words.run_id and worst.output_id = words.output_id
where worst.run_id in (select run_id from latest_run_scores) and worst.place <= 3
order by worst.run_id, worst.model, worst.checkpoint, worst.place;

-- Where is the largest gain: which criterion, on what kind of output? `metadata` has the keys to slice outputs by; above
-- `p_adjusted` 0.05 a spot may be chance.
select run_id, model, criterion_id, slice_key, slice_value, n, mean, rest_mean, p_adjusted, searched_count, gain
from weak_spots
where run_id in (select run_id from latest_run_scores)
order by p_adjusted <= 0.05 desc, gain desc
limit 10;

-- What share of the outputs scores 0.8 or less?
select run_id, model, checkpoint, max_by(share, score) as share
from score_distribution
where score <= 0.8
group by run_id, model, checkpoint
order by share desc;

-- Where do the judge and people disagree most?
select
    verdicts.run_id,
    verdicts.criterion_id,
    outputs.case_id,
    outputs.model,
    verdicts.score as judge_score,
    avg(ratings.score) as rated_score,
    any_value(verdicts.rationale) as rationale
from verdicts
inner join ratings on verdicts.output_id = ratings.output_id and verdicts.criterion_id = ratings.criterion_id
inner join outputs on verdicts.output_id = outputs.output_id
where verdicts.method = 'judge' and verdicts.status = 'scored'
group by verdicts.run_id, verdicts.criterion_id, outputs.case_id, outputs.model, verdicts.score
order by abs(verdicts.score - avg(ratings.score)) desc
limit 20;

-- Which two criteria give nearly the same scores, so that one of them may be redundant?
select
    one.run_id,
    one.criterion_id,
    other.criterion_id as other_id,
    count(*) as n,
    corr(one.score, other.score) as correlation
from verdicts as one
inner join verdicts as other
    on one.run_id = other.run_id and one.output_id = other.output_id and one.criterion_id < other.criterion_id
where one.score is not null and other.score is not null and one.run_id in (select run_id from latest_run_scores)
group by one.run_id, one.criterion_id, other.criterion_id
having count(*) >= 20 and stddev_samp(one.score) > 0 and stddev_samp(other.score) > 0
order by correlation desc
limit 10;

-- What score did each rater give each output, by the rubric's weights? The last column puts it on a scale from 1 to 5.
with rated as (
    select * from ratings
    qualify row_number() over (partition by output_id, criterion_id, rater order by rated_at desc nulls last) = 1
)

select
    scores.run_id,
    scores.case_id,
    scores.model,
    rated.rater,
    sum(rated.score * criteria.weight) / sum(criteria.weight) as score,
    1 + 4 * sum(rated.score * criteria.weight) / sum(criteria.weight) as points
from rated
inner join latest_output_scores as scores on rated.output_id = scores.output_id
inner join runs on scores.run_id = runs.run_id
inner join criteria
    on runs.rubric_id = criteria.rubric_id
    and runs.rubric_version = criteria.rubric_version
    and rated.criterion_id = criteria.criterion_id
where criteria.weight > 0 and rated.score is not null
group by scores.run_id, scores.case_id, scores.model, rated.rater
order by scores.run_id, scores.case_id, scores.model, rated.rater;

-- How do models perform on the parts of a dataset? A column of your own file that gradebook does not know is
-- in `metadata`.
select scores.run_id, outputs.metadata ->> 'topic' as topic, scores.model, avg(scores.score) as mean
from latest_output_scores as scores
inner join outputs on scores.output_id = outputs.output_id
group by scores.run_id, topic, scores.model
order by scores.run_id, topic, scores.model;
