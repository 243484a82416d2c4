-- past_differences: one row per model and case, or cluster of cases, of the last comparison of a suite's or rubric's
-- run: the mean difference (B - A) of its overall scores, 0..1 each, for each pair of models that was compared, with
-- the ids of both runs. $suite: name of the suite, or null; $rubric_id: the rubric, or null.
with compared as (
    select runs.run_id, comparisons.baseline_run_id
    from run_comparisons as comparisons
    inner join runs on comparisons.run_id = runs.run_id
    where
        runs.status = 'published'
        and comparisons.scope = 'overall'
        and comparisons.n > 1
        and ($suite is null or (runs.settings::json ->> 'suite') = $suite)
        and ($rubric_id is null or runs.rubric_id = $rubric_id)
    order by runs.version desc
    limit 1
),

pairs as (
    select distinct
        comparisons.run_id,
        comparisons.baseline_run_id,
        comparisons.model,
        comparisons.checkpoint,
        comparisons.baseline_model,
        comparisons.baseline_checkpoint,
    from compared
    inner join run_comparisons as comparisons
        on compared.run_id = comparisons.run_id and compared.baseline_run_id = comparisons.baseline_run_id
    where comparisons.scope = 'overall'
),

final as (
    select
        pairs.run_id,
        pairs.baseline_run_id,
        avg(of_b.score - of_a.score) as difference,
    from pairs
    inner join output_scores as of_b
        on pairs.run_id = of_b.run_id
        and pairs.model = of_b.model
        and pairs.checkpoint is not distinct from of_b.checkpoint
    inner join output_scores as of_a
        on pairs.baseline_run_id = of_a.run_id
        and pairs.baseline_model = of_a.model
        and pairs.baseline_checkpoint is not distinct from of_a.checkpoint
        and of_b.case_id = of_a.case_id
        and of_b.sample_index is not distinct from of_a.sample_index
    where of_b.score is not null and of_a.score is not null
    group by
        pairs.run_id, pairs.baseline_run_id, of_b.model, of_b.checkpoint, coalesce(of_b.cluster, of_b.case_id)
    order by of_b.model, of_b.checkpoint, coalesce(of_b.cluster, of_b.case_id)
)

select * from final
