-- int_values_clustered: one row per measure (score, pass or gate), scope (criterion, category, run or slice), scope_id,
-- output_number of int_outputs_clustered with a value: a score, 1 for a pass and 0 for a fail, or 1 for a failed gate
-- and 0 for none, with its weight if it has one. And one per case with several samples, for the measures pass_at_k and
-- pass_hat_k of the run.
with outputs as (select * from int_outputs_clustered),

measured as (select * from int_scores_clustered),

final as (
    select
        measures.measure,
        measured.scope,
        measured.scope_id,
        outputs.model,
        outputs.checkpoint,
        outputs.cluster_number,
        outputs.stratum_number,
        coalesce(
            case measures.measure
                when 'score' then measured.score_weight
                when 'pass' then measured.pass_weight
                else measured.gate_weight
            end,
            outputs.weight
        ) as weight,
        outputs.dataset_case_count,
        case measures.measure when 'score' then measured.score when 'pass' then measured.pass else measured.gate end
            as value,
    from measured
    inner join outputs on measured.output_number = outputs.output_number
    cross join (values ('score'), ('pass'), ('gate')) as measures (measure)
    where value is not null
    union all by name
    select
        measures.measure, 'run' as scope, '' as scope_id, outputs.model, outputs.checkpoint, outputs.cluster_number,
        outputs.stratum_number, outputs.case_weight as weight, outputs.dataset_case_count,
        case measures.measure when 'pass_at_k' then cases.pass_at_k else cases.pass_hat_k end as value,
    from int_samples_counted as cases
    inner join outputs on cases.output_number = outputs.output_number
    cross join (values ('pass_at_k'), ('pass_hat_k')) as measures (measure)
    where value is not null
)

select * from final
