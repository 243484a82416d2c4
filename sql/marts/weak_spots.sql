-- weak_spots: one row per run_id, model, checkpoint, criterion_id, slice_key, slice_value with a worse mean than the
-- other outputs: a weak spot beyond chance where p_adjusted is at most 0.05, over the searched_count slices and
-- criteria of the run. Scores are in 0..1 over n outputs; gain is the rise of the overall mean without the shrunk_lift,
-- null for a gate; example_ids are up to 3 outputs with the largest loss.
-- empty without: int_outputs_sliced
with spots as (
    select spots.*, tests.* exclude (scope_id),
    from int_slices_ranked as spots
    inner join int_slices_tested as tests on spots.scope_id = tests.scope_id
),

intervals as (select * from int_means_estimated where scope = 'slice'),

outputs as (select * from int_outputs_sliced),

verdicts as (select * from int_verdicts_weighted where not is_per_case),

examples as (
    select
        spots.scope_id,
        min(
            {'score': if(spots.weight < 0, -verdicts.score, verdicts.score), 'output_id': scores.output_id}, 3
        ) as lowest,
    from spots
    inner join outputs on spots.slice_number = outputs.slice_number
    inner join verdicts
        on outputs.output_number = verdicts.output_number
        and spots.criterion_id = verdicts.criterion_id
    inner join int_outputs_numbered as scores on outputs.output_number = scores.output_number
    group by spots.scope_id
),

final as (
    select
        run.run_id,
        spots.model,
        spots.checkpoint,
        spots.criterion_id,
        spots.slice_key,
        spots.slice_value,
        spots.n,
        intervals.cluster_count,
        spots.mean,
        intervals.ci_low,
        intervals.ci_high,
        spots.rest_n,
        spots.rest_mean,
        spots.mean - spots.rest_mean as lift,
        0.0 - spots.direction * spots.shrunk_shortfall as shrunk_lift,  -- never -0, which an inlined row loses
        spots.p,
        spots.p_adjusted,
        spots.searched_count,
        case when not spots.is_gate then abs(spots.weight) * spots.share * spots.shrunk_shortfall end as gain,
        list_transform(examples.lowest, lambda example: example.output_id) as example_ids,
    from spots
    inner join intervals
        on spots.scope_id = intervals.scope_id
        and spots.model = intervals.model
        and spots.checkpoint is not distinct from intervals.checkpoint
    inner join examples on spots.scope_id = examples.scope_id
    cross join stg_run as run
)

select * from final
