-- run_marks: one row per output_id of the run $run_id, criterion_id, rater: the latest rating, level_id null where the
-- rater took it back; and each scored verdict that does not repeat ratings, with the run as its rater.
with outputs_of_run as (
    select scores.output_id, scores.case_id, scores.model, scores.sample_index, outputs.output
    from output_scores as scores
    inner join outputs on scores.output_id = outputs.output_id
    where scores.run_id = $run_id
),

people as (select output_id, criterion_id, rater, level_id from {ratings/current_ratings}),

run_verdicts as (
    select output_id, criterion_id, run_id as rater, level_id
    from verdicts
    where run_id = $run_id and method <> 'ratings' and score is not null
),

final as (
    select
        outputs_of_run.output_id,
        outputs_of_run.case_id,
        outputs_of_run.model,
        coalesce(outputs_of_run.sample_index, 0) as sample_index,
        outputs_of_run.output,
        marks.criterion_id,
        marks.rater,
        marks.level_id,
    from outputs_of_run
    left join (from people union all from run_verdicts) as marks on outputs_of_run.output_id = marks.output_id
    order by outputs_of_run.output_id, marks.criterion_id, marks.rater
)

select * from final
