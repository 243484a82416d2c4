-- Rates of judge_noise are in 0..1, variances at least 0 and at most 1, effective votes at least 1.
-- severity: error
-- empty without: judge_noise
with noise as (select * from judge_noise),

final as (
    select *
    from noise
    where not (
        coalesce(flip_rate between 0 and 1, true)
        and coalesce(swap_flip_rate between 0 and 1, true)
        and coalesce(agreement_rate between 0 and 1, true)
        and coalesce(judge_variance between 0 and 1, true)
        and coalesce(output_variance between 0 and 1, true)
        and coalesce(effective_votes >= 1, true)
    )
)

select * from final
