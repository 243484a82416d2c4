-- opinion_scores: one row per scored opinion of a judge and per current rating of a person on the outputs of the run
-- $run_id, in order. kind: judge or rater; who: the judge or the rater. score is 0..1. shared: the cluster or case.
with outputs_of_run as (
    select output_id, model, checkpoint, coalesce('cluster ' || cluster, 'case ' || case_id) as shared
    from output_scores
    where run_id = $run_id
),

said as (
    select 'judge' as kind, criterion_id, output_id, judge as who, score
    from opinions
    where run_id = $run_id and not is_swapped and score is not null
    union all
    select 'rater' as kind, criterion_id, output_id, rater as who, score
    from {ratings/current_ratings}
    where score is not null
),

final as (
    select
        said.kind,
        said.criterion_id,
        outputs.model,
        outputs.checkpoint,
        outputs.shared,
        said.output_id,
        said.who,
        said.score,
    from said
    inner join outputs_of_run as outputs on said.output_id = outputs.output_id
    order by said.criterion_id, outputs.model, outputs.checkpoint, said.kind, said.output_id, said.who, said.score
)

select * from final
