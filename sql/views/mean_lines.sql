-- mean_lines: one row per run_id, model, checkpoint, criterion_id, with its line of run_feedback. aim is the level to
-- aim for, null where there is none; loss is the score to be gained over all outputs; merit is the mean, of a gate its
-- pass rate, of a penalty 1 - mean.
with own as (
    select
        run_id,
        criterion_id,
        bool_and(is_gate) as is_gate,
        avg(weight) as weight,
        max(coalesce(threshold, levels[-1].score)) as threshold,
        -- Rows may ask different questions under one id: then there is no common level to name.
        case when min(levels) = max(levels) then min(levels) end as levels,
    from case_criteria
    group by run_id, criterion_id
),

held as (
    select
        scores.run_id, scores.model, scores.checkpoint, scores.criterion_id,
        scores.output_count, scores.mean, scores.pass_rate,
        ladders.criterion_id is null as is_own, ladders.position,
        coalesce(ladders.is_gate, own.is_gate) as is_gate,
        coalesce(ladders.threshold, own.threshold) as threshold,
        coalesce(ladders.weight, own.weight) as weight,
        coalesce(ladders.levels, own.levels) as levels,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    left join criterion_ladders as ladders
        on runs.rubric_id = ladders.rubric_id
        and runs.rubric_version = ladders.rubric_version
        and scores.criterion_id = ladders.criterion_id
    left join own on scores.run_id = own.run_id and scores.criterion_id = own.criterion_id
),

measured as (
    select
        *,
        coalesce(is_gate and pass_rate < 1.0, false) as is_failed_gate,
        case
            when is_failed_gate
                then list_filter(levels, lambda level: level.score >= coalesce(threshold, levels[-1].score) - 1e-9)[1]
            when weight > 0 then list_filter(levels, lambda level: level.score > mean + 1e-9)[1]
            when weight < 0 then list_filter(levels, lambda level: level.score < mean - 1e-9)[-1]
        end as better,
        case when is_gate then 1.0 - pass_rate else weight * if(weight < 0, -mean, 1.0 - mean) end as output_loss,
        case when is_gate then pass_rate when weight < 0 then 1.0 - mean else mean end as merit,
    from held
),

final as (
    select
        run_id,
        model,
        checkpoint,
        criterion_id,
        is_own,
        position,
        is_failed_gate,
        round(output_loss * output_count, 9) as loss,
        round(merit, 9) as merit,
        concat(
            criterion_id, ': ', coalesce(printf('mean %.2f', mean), 'unscored'),
            case when is_gate then ', gate' when weight < 0 then ', penalty' end
        ) as line,
        criterion_id || ': ' || coalesce(better.label, better.id)
            || coalesce(': ' || nullif(better.description, ''), '') as aim,
    from measured
)

select * from final
