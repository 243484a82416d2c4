-- queue_uncertain: one row per output_id of the run $run_id whose judge was in doubt. doubt: 1 - the probability of the
-- likeliest level, or the share of opinions that differ from the most frequent one; 0..1, the largest of the criteria
-- and steps; the most doubtful first.
with distributions as (
    select
        verdicts.output_id,
        1 - list_max(map_values(cast(cast(judgments.distribution as json) as map(varchar, double)))) as doubt,
    from verdicts
    inner join judgments on verdicts.request_key = judgments.request_key
    where verdicts.run_id = $run_id and judgments.distribution is not null
),

levels_counted as (
    select output_id, criterion_id, null as step_index, count(*) as opinion_count
    from opinions
    where run_id = $run_id and status = 'scored'
    group by output_id, criterion_id, coalesce(level_id, score::varchar)  -- claims have no level
    union all
    select output_id, criterion_id, step_index, count(*) as opinion_count
    from step_opinions
    where run_id = $run_id and label is not null
    group by output_id, criterion_id, step_index, label
),

doubts as (
    select output_id, doubt from distributions
    union all
    select output_id, 1 - max(opinion_count) / sum(opinion_count) as doubt
    from levels_counted
    group by output_id, criterion_id, step_index
),

final as (
    select output_id, max(doubt) as doubt
    from doubts
    where doubt > 1e-9
    group by output_id
    order by doubt desc, output_id
)

select * from final
