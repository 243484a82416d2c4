-- unpaired_scores: one row per side, output_id of compared_outputs and criterion_id of its rubric, in order; the empty
-- criterion_id is that of the overall score. own_case_number counts cases from 0, case_number cases or clusters. score
-- is 0..1, null if unscored, with its bounds low and high where it is owed. $run_a, $run_b: the runs of the sides.
with scored as (
    select
        outputs.side,
        outputs.case_id,
        outputs.case_number,
        verdicts.criterion_id,
        verdicts.score,
        coalesce(starts_with(verdicts.reason, 'not_applicable'), false) as is_excused,
        if(is_excused, verdicts.score, coalesce(verdicts.score, 0.0)) as low,
        if(is_excused, verdicts.score, coalesce(verdicts.score, 1.0)) as high,
    from compared_outputs as outputs
    inner join verdicts
        on outputs.output_id = verdicts.output_id
        and verdicts.run_id = if(outputs.side = 'a', $run_a, $run_b)
    where verdicts.run_id in ($run_a, $run_b)
),

joined as (
    select side, case_id, case_number, criterion_id, score, low, high from scored
    union all
    select side, case_id, case_number, '' as criterion_id, score, score_low as low, score_high as high
    from compared_outputs
),

final as (
    select * exclude (case_id), dense_rank() over (order by case_id) - 1 as own_case_number
    from joined
    order by criterion_id, side, case_number, score
)

select * from final
