-- replaceable
-- schema_version is the number of the last migration: a program asks for it to
-- see whether the two of them fit. For everybody, though the table it reads is
-- its owner's.
create or replace function @schema@.schema_version() returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  return (select max(m.version) from @schema@.migration m);
end $lockstep$;
