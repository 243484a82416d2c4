-- Means, interval ends and rates of run_scores are in 0..1, its quantiles in order and not above 1.
-- severity: error
with mart as (select * from run_scores),

final as (
    select
        model,
        checkpoint,
        mean,
        ci_low,
        ci_high,
        p05,
        p95,
        pass_low,
        pass_high,
        uniform_mean,
        pass_rate,
        gate_failure_rate,
        gate_failure_low,
        gate_failure_high,
        coverage_rate,
        pass_at_k,
        pass_hat_k,
    from mart
    where not (
        coalesce(mean, 0.0) between 0 and 1
        and coalesce(p05 <= p95 + 1e-9 and p95 <= 1 + 1e-9, n = 0)
        and coalesce(ci_low, 0.0) between 0 and 1
        and coalesce(ci_high, 0.0) between 0 and 1
        and coalesce(pass_low, 0.0) between 0 and 1
        and coalesce(pass_high, 0.0) between 0 and 1
        and coalesce(uniform_mean, 0.0) between 0 and 1
        and coalesce(pass_rate, 0.0) between 0 and 1
        and coalesce(gate_failure_rate, 0.0) between 0 and 1
        and coalesce(gate_failure_low, 0.0) between 0 and coalesce(gate_failure_high, 1.0)
        and coalesce(gate_failure_high, 0.0) between 0 and 1
        and coalesce(coverage_rate, 0.0) between 0 and 1
        and coalesce(pass_at_k, 0.0)
            between coalesce(pass_at_k_low, 0.0) - 1e-9 and coalesce(pass_at_k_high, 1.0) + 1e-9
        and coalesce(pass_hat_k, 0.0)
            between coalesce(pass_hat_k_low, 0.0) - 1e-9 and coalesce(pass_hat_k_high, 1.0) + 1e-9
    )
)

select * from final
