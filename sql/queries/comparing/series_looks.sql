-- series_looks: one row per night before $night, since $since, of the suite $suite: the last published run of the night
-- that was compared as a look of a series.
with final as (
    select
        runs.run_id,
        runs.settings::json ->> 'night' as night,
        runs.settings::json ->> 'baseline_run_id' as baseline_run_id,
        runs.settings::json ->> 'fail_if' as fail_if,
        runs.settings::json ->> 'require' as "require",
        coalesce((runs.settings::json ->> 'across_judges')::boolean, false) as across_judges,
        coalesce(runs.settings::json ->> 'models', 'all') as models,
    from runs
    where
        runs.status = 'published'
        and (runs.settings::json ->> 'suite') = $suite
        and (runs.settings::json ->> 'night') < $night
        and (runs.settings::json ->> 'night') >= $since
        and (runs.settings::json -> 'series' ->> 'factor') is not null
        and coalesce(runs.trigger, '') not in ('rescore', 'review')
    qualify row_number() over (partition by runs.settings::json ->> 'night' order by runs.version desc) = 1
    order by night
)

select * from final
