-- rated_verdicts: one row per output_id of the run $run_id that its judge scored and people rated on the criterion
-- $criterion_id. score: the judge's, 0..1. people_score: the decision of an adjudicator, or else the mean of the
-- ratings of outputs that no rule chose for rating; null if a rule alone chose it. scores: of the raters, in order.
-- notes: what people wrote, in order. shared: the output's cluster or case, as the macro cluster_of. selection: why it
-- was rated.
with rated as (
    select
        output_id,
        avg(sample_score) as sample_score,
        list(score order by rater) as scores,
        min(selection) as selection,
    from latest_ratings
    where criterion_id = $criterion_id
    group by output_id
),

noted as (
    select output_id, list(distinct notes order by notes) as notes
    from agreed_ratings
    where criterion_id = $criterion_id and trim(notes) <> ''
    group by output_id
),

decided as (from latest_decisions where criterion_id = $criterion_id and score is not null),

final as (
    select
        verdicts.output_id,
        outputs.case_id,
        shown.shared,
        outputs.model,
        outputs.checkpoint,
        verdicts.score,
        verdicts.level_id,
        verdicts.rationale,
        verdicts.request_key,
        case when rated.sample_score is not null then coalesce(decided.score, rated.sample_score) end as people_score,
        rated.scores,
        rated.selection,
        coalesce(noted.notes, []) as notes,
    from agreed_verdicts as verdicts
    inner join rated on verdicts.output_id = rated.output_id
    inner join output_scores as outputs
        on verdicts.run_id = outputs.run_id
        and verdicts.output_id = outputs.output_id
    inner join agreed_outputs as shown on verdicts.output_id = shown.output_id
    left join decided on verdicts.output_id = decided.output_id
    left join noted on verdicts.output_id = noted.output_id
    where
        verdicts.run_id = $run_id
        and verdicts.criterion_id = $criterion_id
        and verdicts.method = 'judge'
        and verdicts.status = 'scored'
    order by verdicts.output_id
)

select * from final
