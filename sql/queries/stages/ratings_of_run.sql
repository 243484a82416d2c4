-- ratings_of_run: one row per rating that the run published as the version $version took, of the outputs in the file
-- $outputs: the ratings of the version $taken, before it judged, and those that its publication added to the version
-- $before. is_from_file: from the run's own ratings $file, which take precedence over the lake's; $file is null if it
-- had none.
with earlier as (select rowid as id from ratings at (version => $before)),

taken as (select rowid as id from ratings at (version => $taken)),

final as (
    select
        stored.*,
        earlier.id is null or coalesce(stored.source = $file, false) as is_from_file,
        stored.rowid as line,
    from ratings as stored at (version => $version)
    left join earlier on stored.rowid = earlier.id
    where
        stored.output_id in (select output_id from read_parquet($outputs))
        and (earlier.id is null or stored.rowid in (select id from taken))
)

select * from final
