-- run_outputs: one row per output_id of the run $run_id, without its texts: of the outputs with verdicts or, if
-- $has_no_criteria (the rubric has none), of all, because rows without per-case criteria then have no verdict. The
-- cluster is that of the run, which copies of cases may have got.
with of_run as (
    select output_id from verdicts where run_id = $run_id
    union
    select output_id from output_scores where run_id = $run_id and $has_no_criteria
),

final as (
    select
        outputs.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        coalesce(scores.cluster, outputs.cluster) as cluster,
        outputs.metadata,
    from outputs
    semi join of_run on outputs.output_id = of_run.output_id
    left join output_scores as scores on outputs.output_id = scores.output_id and scores.run_id = $run_id
)

select * from final
