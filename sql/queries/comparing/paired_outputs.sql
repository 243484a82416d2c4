-- paired_outputs: one row per place with an output on each side, in order: both outputs' uniform scores (0..1),
-- whether they pass (0 or 1), and the bounds of their scores. is_same: both are one output.
with final as (
    select
        place,
        max(uniform_score) filter (side = 'a') as uniform_a,
        max(uniform_score) filter (side = 'b') as uniform_b,
        max(is_passed::integer) filter (side = 'a') as passed_a,
        max(is_passed::integer) filter (side = 'b') as passed_b,
        max(score_low) filter (side = 'a') as low_a,
        max(score_high) filter (side = 'a') as high_a,
        max(score_low) filter (side = 'b') as low_b,
        max(score_high) filter (side = 'b') as high_b,
        count(distinct output_id) = 1 as is_same,
    from compared_outputs
    where has_partner
    group by place
    order by place
)

select * from final
