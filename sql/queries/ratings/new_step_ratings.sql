-- new_step_ratings: one row per mark of a step in the relation given_steps that the table step_ratings lacks, whatever
-- file it was read from. A step is named by its number or by the id of its span; step_index is null for any other name.
with spans as (
    select
        steps.output_id,
        steps.span_id,
        min(steps.step_index) as step_index,
    from steps
    where (steps.output_id, steps.span_id) in (select (output_id, step) from given_steps)
    group by steps.output_id, steps.span_id
),

placed as (
    select
        given_steps.* exclude (step),
        coalesce(spans.step_index, try_cast(given_steps.step as integer)) as step_index,
    from given_steps
    left join spans on given_steps.output_id = spans.output_id and given_steps.step = spans.span_id
),

final as (
    select placed.*
    from placed
    anti join step_ratings as kept
        on placed.output_id = kept.output_id
        and placed.criterion_id = kept.criterion_id
        and placed.rater = kept.rater
        and placed.step_index is not distinct from kept.step_index
        and placed.label is not distinct from kept.label
        and placed.error_type is not distinct from kept.error_type
        and placed.error_subtype is not distinct from kept.error_subtype
        and placed.severity is not distinct from kept.severity
        and placed.rationale is not distinct from kept.rationale
        and placed.rated_at is not distinct from kept.rated_at
)

select * from final
