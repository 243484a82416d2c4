-- example_step_marks: one row per output_id, step_index, criterion_id, kind, who and error: marks of the steps of the
-- outputs $output_ids, in order: what a lead decided (kind 0), the verdict of the judge of the run $run_id (1), each
-- vote behind it (2), and the latest mark of each person (3). Of a long trajectory the first and last $most_steps;
-- of each text the first $most_characters characters. score is 0..1.
with limits as (
    select output_id, len(steps) - $most_steps as last_from
    from outputs
    where list_contains($output_ids, output_id)
),

marks as (
    select output_id, criterion_id, step_index, 0 as kind, adjudicator as who, label, score, error_type, error_subtype,
        severity, notes as why,
    from {ratings/settled_steps}
    union all
    select output_id, criterion_id, step_index, 1 as kind, null as who, label, score, error_type, error_subtype,
        severity, rationale as why,
    from step_verdicts
    where run_id = $run_id
    union all
    select output_id, criterion_id, step_index, 2 as kind, concat(judge, ', vote ' || nullif(replicate + 1, 1)) as who,
        coalesce(label, 'no label') as label, score, error_type, error_subtype, severity,
        coalesce(reason, rationale) as why,
    from step_opinions
    where run_id = $run_id
    union all
    select output_id, criterion_id, step_index, 3 as kind, rater as who, label, score, error_type, error_subtype,
        severity, rationale as why,
    from {ratings/current_step_ratings}
    where label is not null
),

final as (
    select
        marks.* exclude (label, who, why),
        coalesce(label, 'does not apply') as label,
        left(who, $most_characters) as who,
        left(why, $most_characters) as why,
    from marks
    inner join limits on marks.output_id = limits.output_id
    where step_index < $most_steps or step_index >= last_from
    order by marks.output_id, step_index, criterion_id, kind, who, score, error_type, error_subtype
)

select * from final
