-- judge_states: one row per anchor_set, judge, criterion_id: the last night of judge_drift, alarms first. $judge: this
-- judge alone, null: all; $until: of nights stored up to this time, null: all.
with final as (
    select
        anchor_set,
        judge,
        criterion_id,
        night,
        epoch,
        state,
        n,
        mean_gap,
        gap_low,
        gap_high,
        people_gap,
        e_value,
        alarm_at,
    from judge_drift
    where ($judge is null or judge = $judge) and ($until is null or watched_at <= $until)
    qualify rank() over (partition by anchor_set, judge_digest order by night desc) = 1
    order by state = 'drifted' desc, e_value desc, anchor_set, judge, criterion_id
)

select * from final
