-- stg_run: the one row of this run. missing is null, skip or zero, as a word; pass_threshold in 0..1.
with runs as (select * from source_run),

final as (
    select
        run_id,
        coalesce(missing, 'null') as missing,
        pass_threshold,
        coalesce(require_thresholds, false) as require_thresholds,
    from runs
)

select * from final
