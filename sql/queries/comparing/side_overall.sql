-- side_overall: one row per output of the side {side} (a or b): its overall score (0..1) in the run $run_{side}, under
-- the empty criterion_id. held_to: the bodies of the per-case criteria, because they affect the score.
with own as (
    select output_id, string_agg(body, chr(10) order by body) as bodies
    from case_criteria
    where run_id = $run_{side}
    group by output_id
),

final as (
    select
        outputs.side,
        outputs.place,
        outputs.case_number,
        outputs.has_partner,
        outputs.is_ambiguous,
        '' as criterion_id,
        outputs.score,
        outputs.score is null and outputs.score_low is not null as is_missing,
        coalesce(own.bodies, '') as held_to,
        null::double as own_weight,
    from compared_outputs as outputs
    left join own on outputs.output_id = own.output_id
    where outputs.side = '{side}'
)

select * from final
