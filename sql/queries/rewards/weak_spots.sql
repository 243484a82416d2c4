-- weak_spots: one row per weak spot of the run $run_id among the criteria $criterion_ids, the largest first, at most
-- $row_count: a slice of outputs that a criterion scores worse than the others beyond chance, or all outputs of a model
-- (slice_key null). gain is what the mean score (0..1) would rise by, of a gate its share of failures; examples are up
-- to three of the lowest outputs, as JSON.
with ranked as (
    select
        verdicts.criterion_id, verdicts.score, verdicts.rationale,
        outputs.output_id, outputs.case_id, outputs.model, outputs.checkpoint, outputs.prompt, outputs.output,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    where verdicts.run_id = $run_id and list_contains($criterion_ids, verdicts.criterion_id)
        and verdicts.score is not null
),

whole as (
    select
        scores.model, scores.checkpoint, scores.criterion_id, scores.n, scores.mean,
        case
            when criteria.is_gate then 1 - scores.pass_rate
            else abs(criteria.effective_weight) * if(criteria.weight < 0, scores.mean, 1 - scores.mean)
        end as gain,
        arg_min(ranked.output_id, if(criteria.weight < 0, -ranked.score, ranked.score), 3) as example_ids,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    inner join ranked
        on scores.criterion_id = ranked.criterion_id
        and scores.model = ranked.model
        and scores.checkpoint is not distinct from ranked.checkpoint
    where scores.run_id = $run_id
    group by all
),

spots as (
    select model, checkpoint, criterion_id, n, mean, gain, example_ids, slice_key, slice_value, rest_mean, p_adjusted,
    from weak_spots
    where run_id = $run_id and list_contains($criterion_ids, criterion_id) and p_adjusted <= 0.05
    union all by name
    select * from whole where gain > 1e-9
),

chosen as (
    select *, row_number() over (order by gain desc nulls last, model, checkpoint, criterion_id, slice_key, slice_value)
        as rank,
    from spots
    qualify rank <= $row_count
),

final as (
    select
        chosen.* exclude (example_ids),
        to_json(list({
            'case_id': ranked.case_id, 'prompt': ranked.prompt, 'output': ranked.output, 'score': ranked.score,
            'rationale': ranked.rationale
        } order by ranked.score, ranked.output_id)) as examples,
    from chosen
    inner join ranked
        on list_contains(chosen.example_ids, ranked.output_id) and chosen.criterion_id = ranked.criterion_id
    group by all
    order by chosen.rank
)

select * from final
