-- standing_steps: one row per output_id, criterion_id, step_index, who and error: what people's marks of a step come
-- to: a lead's decision where there is one, else the latest mark of each rater.
with settled as (from {ratings/settled_steps}),

final as (
    select
        output_id,
        criterion_id,
        step_index,
        adjudicator as who,
        true as is_settled,
        label,
        score,
        error_type,
        error_subtype,
        severity,
        notes as rationale,
    from settled
    where score is not null
    union all
    select
        output_id,
        criterion_id,
        step_index,
        rater as who,
        false as is_settled,
        label,
        score,
        error_type,
        error_subtype,
        severity,
        rationale,
    from {ratings/current_step_ratings} as marks
    anti join settled using (output_id, criterion_id, step_index)
    where score is not null
)

select * from final
