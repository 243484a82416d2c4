-- queue_pairs: one row per output_a, output_b: two outputs of one case and sample number with different texts, in a
-- fixed order that the caller shuffles, and the texts that a rater sees. $baseline_run_id: the run of side A, whose
-- models are paired with the same ones of the run $run_id, and with all if that has none of the same name; null: both
-- sides are of the run $run_id, and A is the model and checkpoint that comes first by name.
with sides as (
    select scores.run_id, scores.output_id, scores.case_id, scores.sample_index, scores.model, scores.checkpoint
    from output_scores as scores
    where scores.run_id = $run_id or scores.run_id = $baseline_run_id
),

models_of_both as (
    select model
    from sides
    group by model
    having count(distinct run_id) = 2
),

pairs as (
    select a.output_id as output_a, b.output_id as output_b
    from sides as a
    inner join sides as b
        on a.case_id = b.case_id
        and a.sample_index is not distinct from b.sample_index
        and a.output_id <> b.output_id
    where
        b.run_id = $run_id
        and a.run_id = coalesce($baseline_run_id, $run_id)
        and if(
            $baseline_run_id is null,
            (a.model, coalesce(a.checkpoint, '')) < (b.model, coalesce(b.checkpoint, '')),
            a.model = b.model or a.model not in (from models_of_both) and b.model not in (from models_of_both)
        )
),

final as (
    select
        pairs.output_a,
        pairs.output_b,
        texts_b.prompt,
        texts_b.reference,
        texts_b.context,
        texts_a.output as text_a,
        texts_b.output as text_b,
        texts_a.metadata ->> '$.audio' as audio_a,
        texts_b.metadata ->> '$.audio' as audio_b,
    from pairs
    inner join outputs as texts_a on pairs.output_a = texts_a.output_id
    inner join outputs as texts_b on pairs.output_b = texts_b.output_id
    where texts_a.output <> texts_b.output
    order by pairs.output_a, pairs.output_b
)

select * from final
