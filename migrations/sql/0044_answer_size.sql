-- replaceable
-- What one answer to a claim may hold.

-- text_bound is how long payload and headers can be as text at most, by what is
-- stored of them, which is not read: a character has at most six (\u0001), and a
-- compressed byte stands for at most 255 (LZ4's bound; pglz's is less). Numbers
-- with exponents can be longer.
create or replace function @schema@.text_bound(payload jsonb, headers jsonb) returns bigint
language sql stable parallel safe
return (pg_catalog.pg_column_size(payload)::bigint + pg_catalog.pg_column_size(headers))
  * case when pg_catalog.pg_column_compression(payload) is null and pg_catalog.pg_column_compression(headers) is null then 6 else 255 end;

-- fitting cuts ids, in their order, to jobs whose payloads and headers make up at
-- most 64 MiB of text, or to the first: a value can have 1 GB, and a claim that
-- goes over it would fail again and again, with its whole queue. The others wait
-- for the next claim. The rows are not looked at where their bounds add up to
-- less, and their number times the limit does.
create or replace function @schema@.fitting(ids bigint[], bound bigint default null) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  room constant bigint := 67108864;
  fit  bigint[] := '{}';
  left_over bigint := room;
  jobs cursor for -- read row by row
    select u.id, t.bytes from unnest(ids) u(id) cross join lateral (
      select octet_length(j.payload::text)::bigint + octet_length(j.headers::text) as bytes from @schema@.job j where j.id = u.id offset 0) t;
begin
  if coalesce(cardinality(ids), 0) = 0 or bound <= room and cardinality(ids) * (@schema@.payload_limit()::bigint + @schema@.text_limit()) < 1000000000 then
    return ids;
  end if;
  for job in jobs loop
    left_over := left_over - job.bytes;
    exit when left_over < 0 and fit <> '{}';
    fit := fit || job.id;
  end loop;
  return fit;
end $lockstep$;
