-- The last count of the live jobs, one row: counting reads them all, and one
-- count serves everyone who asks.
create table @schema@.fleet_stats (
  only_row   boolean primary key default true check (only_row),
  counted_at timestamptz not null,
  took       interval not null,
  counts     jsonb not null
) with (fillfactor = 50);
