-- int_quantiles: one row per scope (category or run), scope_id, model, checkpoint that has a score. p05 to p95 are the
-- scores that 5%, 25%, 50%, 75% and 95% of the outputs do not exceed, interpolated; where several scores share their
-- first 4 digits after the point, these are taken for all of them.
with outputs as (select * from int_measured_outputs where score is not null),

-- Millions of scores have few values then: a quantile of them all holds them all in memory.
counted as (
    select
        scope, scope_id, model, checkpoint,
        round(score, 4) as near,
        if(min(score) = max(score), min(score), near) as score,
        count(*) as n,
    from outputs
    group by scope, scope_id, model, checkpoint, near
),

ordered as (
    select
        *,
        sum(n) over (partition by scope, scope_id, model, checkpoint order by near) as up_to,
        sum(n) over (partition by scope, scope_id, model, checkpoint) as total,
    from counted
),

-- A quantile stands between two of the outputs in order, the first at 0.
placed as (
    select
        ordered.*,
        wanted.name,
        wanted.share * (ordered.total - 1) as place,
    from ordered
    cross join (
        values ('p05', 0.05::double), ('p25', 0.25), ('p50', 0.5), ('p75', 0.75), ('p95', 0.95)
    ) as wanted (name, share)
),

found as (
    select
        scope, scope_id, model, checkpoint, name,
        min(score) filter (up_to > floor(place)) as below,
        below + (min(score) filter (up_to > ceil(place)) - below) * any_value(place - floor(place)) as quantile,
    from placed
    group by scope, scope_id, model, checkpoint, name
),

final as (
    select
        scope, scope_id, model, checkpoint,
        max(quantile) filter (name = 'p05') as p05,
        max(quantile) filter (name = 'p25') as p25,
        max(quantile) filter (name = 'p50') as p50,
        max(quantile) filter (name = 'p75') as p75,
        max(quantile) filter (name = 'p95') as p95,
    from found
    group by scope, scope_id, model, checkpoint
)

select * from final
