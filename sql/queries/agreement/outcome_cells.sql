-- outcome_cells: one row per name, output_id, criterion_id with a score of the run $run_id and an outcome of the output
-- or its case; the empty criterion_id is the overall score. score is 0..1; model, checkpoint: of the output.
with outcomes_of_run as (select * from outcome_scores where run_id = $run_id and grain <> 'day'),

cells as (
    select name, grain, model, checkpoint, output_id, shared, value, is_higher_better, '' as criterion_id, score,
    from outcomes_of_run
    union all
    select
        found.name, found.grain, found.model, found.checkpoint, found.output_id, found.shared, found.value,
        found.is_higher_better, verdicts.criterion_id, verdicts.score,
    from outcomes_of_run as found
    inner join verdicts on found.output_id = verdicts.output_id
    where verdicts.run_id = $run_id
),

final as (
    select *
    from cells
    where score is not null
    order by name, model, checkpoint, criterion_id, output_id, grain
)

select * from final
