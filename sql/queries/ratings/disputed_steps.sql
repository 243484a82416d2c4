-- disputed_steps: one row per output_id, criterion_id, step_index of an output of the run $run_id whose raters, or
-- rater and judge, mark the step differently (label, error or severity), if nobody has decided since. spread: the
-- largest distance of two labels' scores, 0..1. opinions: each mark with its rater (null: the judge) and time.
with criteria_of_run as (
    select verdicts.output_id, verdicts.criterion_id, len(outputs.steps) as step_count
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    where verdicts.run_id = $run_id
),

voices as (
    select output_id, criterion_id, step_index, rater, label, score, error_type, error_subtype, severity, rationale,
        rated_at,
    from {ratings/current_step_ratings}
    union all
    select output_id, criterion_id, step_index, null as rater, label, score, error_type, error_subtype, severity,
        rationale, null as rated_at,
    from step_verdicts
    where run_id = $run_id
),

disputed as (
    select
        output_id,
        criterion_id,
        step_index,
        max(score) - min(score) as spread,
        max(rated_at) as rated_at,
        list({
            'level_id': label,
            'score': score,
            'error': nullif(concat_ws(' / ', error_type, error_subtype, severity), ''),
            'notes': rationale,
            'rater': rater,
            'rated_at': strftime(rated_at, '%Y-%m-%d %H:%M UTC'),
        } order by rater nulls last, score) as opinions,
    from voices
    inner join criteria_of_run using (output_id, criterion_id)
    where label is not null and step_index < step_count
    group by output_id, criterion_id, step_index
    having count(rater) > 0 and count(distinct concat_ws(' / ', label, error_type, error_subtype, severity)) > 1
        and count(distinct coalesce(rater, '')) > 1
),

final as (
    select disputed.* exclude (rated_at)
    from disputed
    left join {ratings/settled_steps} as settled using (output_id, criterion_id, step_index)
    where settled.decided_at is null or disputed.rated_at > settled.decided_at
    order by output_id, criterion_id, step_index
)

select * from final
