-- shown_criteria: one row per criterion_id, model, checkpoint of the run $run_id, in the rubric's order: the rubric's
-- criteria, and the 30 per-case criteria of the most outputs. Scores are 0..1. is_gate: in every case that has it.
-- description: its question; if it differs from case to case, their number and the first one. is_required: an output
-- without a verdict on it has no whole score.
with optional_criteria as (from {published/optional_criteria}),

most_used as (
    select
        criterion_id,
        bool_and(is_gate) as is_gate,
        count(distinct description) as question_count,
        concat(
            if(question_count > 1, printf('%d questions, such as: ', question_count), null), min(description)
        ) as description,
    from case_criteria
    where run_id = $run_id
    group by criterion_id
    order by count(*) desc, criterion_id
    limit 30
),

final as (
    select
        scores.* exclude (run_id),
        coalesce(criteria.is_gate, most_used.is_gate) as is_gate,
        optional_criteria.criterion_id is null and scores.output_count > 0 as is_required,
        coalesce(criteria.description, most_used.description) as description,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    left join optional_criteria on scores.criterion_id = optional_criteria.criterion_id
    left join most_used on scores.criterion_id = most_used.criterion_id
    where
        scores.run_id = $run_id
        and (criteria.criterion_id is not null or most_used.criterion_id is not null)
    order by criteria.criterion_id is null, criteria.position, scores.criterion_id, scores.model, scores.checkpoint
)

select * from final
