-- Quantiles of run_scores are in order and not above 1, and a figure lies between the ends of its interval.
-- severity: error
with mart as (select * from run_scores),

final as (
    select
        model,
        checkpoint,
        p05,
        p95,
        gate_failure_rate,
        gate_failure_low,
        gate_failure_high,
        pass_at_k,
        pass_hat_k,
    from mart
    where not (
        coalesce(p05 <= p95 + 1e-9 and p95 <= 1 + 1e-9, n = 0)
        and coalesce(gate_failure_rate, 0.0)
            between coalesce(gate_failure_low, 0.0) - 1e-9 and coalesce(gate_failure_high, 1.0) + 1e-9
        and coalesce(pass_at_k, 0.0)
            between coalesce(pass_at_k_low, 0.0) - 1e-9 and coalesce(pass_at_k_high, 1.0) + 1e-9
        and coalesce(pass_hat_k, 0.0)
            between coalesce(pass_hat_k_low, 0.0) - 1e-9 and coalesce(pass_hat_k_high, 1.0) + 1e-9
    )
)

select * from final
