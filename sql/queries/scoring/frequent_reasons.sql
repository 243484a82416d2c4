-- frequent_reasons: one row per model, checkpoint, criterion_id of weakest_criteria and reason, the most frequent
-- first: at most $most_count for each, of verdicts without a score or below the best level. words: the first $length
-- characters of the reason.
with final as (
    select
        weakest.model,
        weakest.checkpoint,
        weakest.criterion_id,
        count(*) as reason_count,
        left(coalesce(verdicts.reason, verdicts.rationale, verdicts.evidence), $length) as words,
    from source_verdicts as verdicts
    inner join source_outputs as outputs on verdicts.output_id = outputs.output_id
    inner join weakest_criteria as weakest
        on outputs.model = weakest.model
        and outputs.checkpoint is not distinct from weakest.checkpoint
        and verdicts.criterion_id = weakest.criterion_id
    where
        (verdicts.score is null or abs(verdicts.score - weakest.best) > 1e-9)
        and not starts_with(coalesce(verdicts.reason, ''), 'not_applicable: condition not met')
    group by weakest.model, weakest.checkpoint, weakest.criterion_id, words
    having words is not null
    qualify row_number() over (
        partition by weakest.model, weakest.checkpoint, weakest.criterion_id order by reason_count desc, words
    ) <= $most_count
    order by reason_count desc, words
)

select * from final
