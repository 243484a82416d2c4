-- weakest_criteria: one row per model, checkpoint, criterion_id: the $most_count criteria whose mean (0..1) is the
-- farthest from the score of their best level. Sums are over decimals, so that they are the same in any order: a
-- rounding difference in a mean would request a new text.
with measured as (
    select
        outputs.model,
        outputs.checkpoint,
        verdicts.criterion_id,
        round(sum(verdicts.score::decimal(18, 12))::double / count(verdicts.score), 4) as mean,
        count(verdicts.score) as scored_count,
        count(*) - count(verdicts.score) as unscored_count,
    from source_verdicts as verdicts
    inner join source_outputs as outputs on verdicts.output_id = outputs.output_id
    where not starts_with(coalesce(verdicts.reason, ''), 'not_applicable: condition not met')
    group by outputs.model, outputs.checkpoint, verdicts.criterion_id
),

-- Rows may ask different questions under one id: these have nothing in common to report.
own as (
    select criterion_id, min(body) as body
    from source_case_criteria
    group by criterion_id
    having count(distinct body) = 1
),

final as (
    select
        measured.*,
        own.body,
        coalesce(best_scores.best_score, 1.0) as best,
        abs(measured.mean - best) as distance,
    from measured
    left join best_scores on measured.criterion_id = best_scores.criterion_id
    left join own on measured.criterion_id = own.criterion_id
    where best_scores.criterion_id is not null or own.body is not null
    qualify row_number() over (
        partition by measured.model, measured.checkpoint order by distance desc nulls last, measured.criterion_id
    ) <= $most_count
)

select * from final
