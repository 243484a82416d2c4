-- outcome_scores: one row per run_id, model, checkpoint, output_id (of a grain output or case) or day, and outcome name
-- of a published run: the outcome's value beside the overall score (0..1). day: the night of a nightly run, else the
-- day (UTC) on which the run began; its score is the run's mean. An outcome that names a model is of this model alone.
with published as (
    select
        run_id,
        rubric_id,
        version,
        coalesce(try_cast(settings ->> '$.night' as date), (created_at at time zone 'UTC')::date) as day,
    from runs
    where status = 'published'
),

matched as (
    select outcomes.*, scores.* exclude (model, case_id, output_id), scores.model as scored_model,
        scores.case_id as scored_case, scores.output_id as scored_output,
    from output_scores as scores
    inner join outcomes on outcomes.grain = 'output' and outcomes.output_id = scores.output_id
    union all by name
    select outcomes.*, scores.* exclude (model, case_id, output_id), scores.model as scored_model,
        scores.case_id as scored_case, scores.output_id as scored_output,
    from output_scores as scores
    inner join outcomes on outcomes.grain = 'case' and outcomes.case_id = scores.case_id
),

of_outputs as (
    select
        name, grain, run_id, scored_model as model, checkpoint, scored_output as output_id, scored_case as case_id,
        coalesce('cluster ' || cluster, 'case ' || scored_case) as shared,
        null::date as day, value, is_higher_better, score,
    from matched
    where model is null or model = scored_model
),

of_days as (
    select
        outcomes.name, outcomes.grain, scores.run_id, scores.model, scores.checkpoint, null as output_id,
        null as case_id, 'day ' || published.day as shared, published.day, outcomes.value, outcomes.is_higher_better,
        scores.mean as score,
    from run_scores as scores
    inner join published on scores.run_id = published.run_id
    inner join outcomes
        on outcomes.grain = 'day'
        and outcomes.day = published.day
        and (outcomes.model is null or outcomes.model = scores.model)
),

final as (
    select published.rubric_id, found.*
    from (select * from of_outputs union all by name select * from of_days) as found
    inner join published on found.run_id = published.run_id
)

select * from final
