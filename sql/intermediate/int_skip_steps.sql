-- int_skip_steps: one row per output_number, root, criterion_id, node: the steps of stg_steps down to the scored
-- criteria of int_gap_outputs. A row's own criteria stand at the top.
with gaps as (select * from int_gap_outputs),

verdicts as (select * from int_scored_verdicts where is_weighted),

steps as (select * from stg_steps),

open_verdicts as (
    select verdicts.*,
    from verdicts
    semi join gaps on verdicts.output_number = gaps.output_number
),

final as (
    select
        verdicts.output_number, steps.root, verdicts.criterion_id, steps.parent, steps.node, steps.weight,
        verdicts.score,
        verdicts.weight > 0 as is_positive,
    from open_verdicts as verdicts
    inner join steps on verdicts.criterion_id = steps.criterion_id
    union all
    select
        output_number, '' as root, criterion_id, '' as parent, 'own:' || criterion_id as node, weight,
        score,
        weight > 0 as is_positive,
    from open_verdicts
    where is_own
)

select * from final
