-- Comparisons are with another run; their counts add up, shares and p are 0..1, and intervals contain their figures.
-- severity: warning
-- empty without: run_comparisons
with compared as (select * from run_comparisons),

final as (
    select *
    from compared
    where
        run_id = baseline_run_id
        or scope not in ('overall', 'category', 'criterion')
        or (scope = 'overall') <> (scope_id is null)
        or coalesce(case_count > n or moved_case_count > case_count, true)
        or better_count + worse_count + tied_count <> n
        or (mean_diff is null) <> (n = 0)
        or not coalesce(isfinite(mean_diff) and isfinite(diff_low) and isfinite(diff_high), true)
        or abs(mean_b - mean_a - mean_diff) > 1e-9
        or mean_diff not between diff_low - 1e-9 and diff_high + 1e-9
        or sd_diff < 0
        or detectable_diff < 0
        or p not between 0 and 1
        or p_wilcoxon not between 0 and 1
        or p_adjusted not between p - 1e-9 and 1
        or p_family not between p - 1e-9 and 1
        or p_holm not between p - 1e-9 and 1
        or risen_case_count + fallen_case_count <> moved_case_count
        or p_mcnemar not between 0 and 1
        or better_rate not between better_low - 1e-9 and better_high + 1e-9
        or worse_rate not between worse_low - 1e-9 and worse_high + 1e-9
        or tied_rate not between tied_low - 1e-9 and tied_high + 1e-9
        or pass_diff not between pass_diff_low - 1e-9 and pass_diff_high + 1e-9
        or gained_count + lost_count > pass_n
        or unchanged_count > n + unscored_count
        or least_diff > most_diff + 1e-9
        or least_diff < least_low - 1e-9
        or most_diff > most_high + 1e-9
        or p_missing not between 0 and 1
)

select * from final
