-- calibration_samples: one row per criterion_id, output_id that the judge scored in the run $run_id or, where people
-- were preferred, in another run. score and rating are 0..1; rating is the mean of the latest ratings, null if unrated.
-- shared: the output's cluster or case, as the macro cluster_of (a lake stores no macros). $criteria: these criteria,
-- also of checks; null: those of the judge.
with scored as (
    select criterion_id, output_id, method, score from agreed_verdicts where status = 'scored' and method <> 'ratings'
    union all
    select criterion_id, output_id, 'judge' as method, score from scores_elsewhere
),

outputs_of_run as (
    select *, coalesce('cluster ' || cluster, 'case ' || case_id) as shared from output_scores where run_id = $run_id
),

rated as (
    select criterion_id, output_id, avg(score) as rating from latest_ratings group by criterion_id, output_id
),

final as (
    select
        scored.criterion_id,
        outputs.model,
        outputs.checkpoint,
        outputs.case_id,
        outputs.shared,
        outputs.sample_index,
        scored.output_id,
        scored.score,
        rated.rating,
    from scored
    inner join outputs_of_run as outputs on scored.output_id = outputs.output_id
    left join rated on scored.criterion_id = rated.criterion_id and scored.output_id = rated.output_id
    where
        case
            when $criteria::varchar[] is null then scored.method = 'judge'
            else list_contains($criteria, scored.criterion_id)
        end
    order by scored.criterion_id, outputs.model, outputs.checkpoint, scored.output_id
)

select * from final
