-- side_verdicts: one row per output, criterion_id of the side {side} (a or b): the score (0..1) of the run $run_{side}
-- on the criteria of the part $part. held_to: the body of a per-case criterion, empty for criteria of the rubric.
-- is_missing: the score is owed; a criterion that does not apply owes none. Without rows where a criterion does not
-- apply by its condition.
with final as (
    select
        outputs.side,
        outputs.place,
        outputs.case_number,
        outputs.has_partner,
        outputs.is_ambiguous,
        verdicts.criterion_id,
        verdicts.score,
        verdicts.score is null and not coalesce(starts_with(verdicts.reason, 'not_applicable'), false) as is_missing,
        coalesce(own.body, '') as held_to,
        own.weight as own_weight,
    from compared_outputs as outputs
    inner join verdicts on outputs.output_id = verdicts.output_id
    left join case_criteria as own
        on own.run_id = $run_{side}
        and verdicts.output_id = own.output_id
        and verdicts.criterion_id = own.criterion_id
    where
        outputs.side = '{side}'
        and verdicts.run_id = $run_{side}
        and verdicts.criterion_id in (select criterion_id from compared_criteria where part = $part)
        and not starts_with(coalesce(verdicts.reason, ''), 'not_applicable: condition not met')
)

select * from final
