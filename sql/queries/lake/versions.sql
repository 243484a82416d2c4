-- versions: one row per version of the lake, newest first, at most $most_count. kind: its purpose, from the commit
-- message (written by the callers of `commit`; absent if another program wrote it). $is_all: include the intermediate
-- versions of a run. listed_count: number of versions that would be listed without a limit.
with published as (select run_id, version from runs where status = 'published'),

snapshots as (
    select
        snapshot_id as version,
        snapshot_time as made_at,
        coalesce(commit_message, replace(array_to_string(map_keys(changes), ', '), '_', ' ')) as message,
        try_cast(commit_extra_info as json) ->> 'run_id' as noted_id,
        regexp_extract(
            message, '^(?:run (.+) (running|failed)|judgments of (.+)|report of (.+))$',
            ['tried', 'status', 'judged', 'reported']
        ) as noted,
    from ducklake_snapshots('lake')
),

named as (
    select
        snapshots.* exclude (noted_id, noted),
        coalesce(published.run_id, noted_id, nullif(noted.tried || noted.judged || noted.reported, '')) as run_id,
        case
            when published.run_id is not null then 'published'
            when noted.status <> '' then noted.status
            when noted.judged <> '' then 'judgments'
            when noted.reported <> '' then 'report'
            when starts_with(message, 'import ratings of ') then 'ratings'
            when message = 'make tables' then 'tables'
            when starts_with(message, 'compact ') then 'upkeep'
            when snapshots.version = 0 then 'empty'
            else 'other'
        end as kind,
    from snapshots
    left join published on snapshots.version = published.version
),

final as (
    select *, count(*) over () as listed_count
    from named
    where $is_all or kind not in ('running', 'judgments', 'report', 'upkeep', 'empty')
    order by version desc
    limit $most_count
)

select * from final
