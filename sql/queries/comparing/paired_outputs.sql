-- paired_outputs: one row per place with an output on each side, in order: both outputs' uniform scores (0..1) and
-- whether they pass (0 or 1).
with final as (
    select
        place,
        max(uniform_score) filter (side = 'a') as uniform_a,
        max(uniform_score) filter (side = 'b') as uniform_b,
        max(is_passed::integer) filter (side = 'a') as passed_a,
        max(is_passed::integer) filter (side = 'b') as passed_b,
    from compared_outputs
    where has_partner
    group by place
    order by place
)

select * from final
