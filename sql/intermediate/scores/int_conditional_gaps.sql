-- int_conditional_gaps: one row per output_number, criterion_number of a criterion with a condition that has no score.
-- is_unmet: the condition does not hold for the output, so that the criterion does not apply to it. is_owed: it holds,
-- and the criterion is required.
-- empty without: source_conditions
-- materialized: table
with criteria as (
    select criteria.*, conditions.is_required as is_required_if_met
    from int_criteria_weighted as criteria
    inner join source_conditions as conditions on criteria.criterion_id = conditions.criterion_id
    where not criteria.is_per_case
),

verdicts as (select * from stg_verdicts where score is null),

final as (
    select
        outputs.output_number,
        outputs.group_number,
        criteria.criterion_number,
        criteria.criterion_id,
        criteria.weight,
        criteria.is_weighted,
        criteria.is_gate,
        criteria.threshold,
        coalesce(starts_with(verdicts.reason, 'not_applicable: condition not met'), false) as is_unmet,
        criteria.is_required_if_met and not is_unmet as is_owed,
    from verdicts
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    inner join int_outputs_numbered as outputs on verdicts.output_id = outputs.output_id
)

select * from final
