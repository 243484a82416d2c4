-- int_samples_counted: one row per group_number, case_id of groups whose cases all have several scored samples.
-- sample_k is the smallest number of a case's scored samples. pass_at_k, pass_hat_k: the probabilities, 0..1, that one
-- of sample_k of the case's samples passes, and that all do, drawn without replacement (Chen et al. 2021); null with
-- fewer known passes.
-- materialized: table
with cases as (
    select
        scores.group_number,
        outputs.case_id,
        any_value(outputs.model) as model,
        any_value(outputs.checkpoint) as checkpoint,
        min(outputs.output_number) as output_number,
        count(scores.score) as n,
        count(scores.is_passed) as known_count,
        count(*) filter (where scores.is_passed) as passed_count,
    from int_outputs_scored as scores
    inner join int_outputs_numbered as outputs on scores.output_number = outputs.output_number
    group by scores.group_number, outputs.case_id
),

drawn as (
    select group_number, min(n) as sample_k
    from cases
    group by group_number
    having min(n) > 1
),

final as (
    select
        cases.*,
        drawn.sample_k,
        case
            when known_count >= drawn.sample_k then 1 - list_product(list_transform(
                range(drawn.sample_k), lambda i: greatest(known_count - passed_count - i, 0) / (known_count - i)
            ))
        end as pass_at_k,
        case
            when known_count >= drawn.sample_k then list_product(list_transform(
                range(drawn.sample_k), lambda i: greatest(passed_count - i, 0) / (known_count - i)
            ))
        end as pass_hat_k,
    from cases
    inner join drawn on cases.group_number = drawn.group_number
)

select * from final
