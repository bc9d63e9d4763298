-- replaceable
-- A restored copy of a database must not run the jobs of the original: workers
-- are refused where the schema is not at home, until a person adopts the copy.

-- this_place tells where this session is. A host that denies pg_control_system()
-- has no system identifier.
create or replace function @schema@.this_place() returns @schema@.home
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  place @schema@.home;
begin
  select true, d.oid, d.datname, clock_timestamp()
    into place.here, place.database_oid, place.database_name, place.recorded_at
    from pg_database d where d.datname = current_database();
  if has_function_privilege('pg_catalog.pg_control_system()', 'execute') then
    place.system_identifier := (select c.system_identifier from pg_control_system() c);
  end if;
  return place;
end $lockstep$;

-- require_home raises LS009 where the schema is not at home. The first worker
-- records where that is: so a database may be made from a migrated template,
-- as long as no worker was ever there. With its owner's rights, so that all workers see
-- the same of the place. Whoever is recording is not waited for.
create or replace function @schema@.require_home() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
declare
  note  constant text := @schema@.setting('home');
  place @schema@.home;
  home  @schema@.home;
  known text;
begin
  select h.* into home from @schema@.home h where h.here;
  known := home::text;
  if current_setting(note, true) = known then
    return;
  end if;
  place := @schema@.this_place();
  if home.here then
    if home.database_oid = place.database_oid and home.database_name = place.database_name
       and (home.system_identifier = place.system_identifier) is not false then
      perform set_config(note, known, false);
      return;
    end if;
    raise exception using errcode = 'LS009',
      message = format('this database is a copy: the schema %s is at home in the database %s%s, and this is the database %s%s',
        quote_ident(@schema_literal@), quote_ident(home.database_name), coalesce(' of the cluster ' || home.system_identifier, ''),
        quote_ident(place.database_name), coalesce(' of the cluster ' || place.system_identifier, '')),
      detail = format('its oid is %s, at home it is %s', place.database_oid, home.database_oid),
      hint = 'no job runs here until the copy is adopted: lockstep adopt, or lockstep adopt --hold to pause all queues first';
  elsif pg_try_advisory_xact_lock(@schema@.own_mutex('home')) then
    insert into @schema@.home select place.* on conflict do nothing;
  end if;
end $lockstep$;

-- adopt makes this database the schema's home, and moves fences and turns far
-- ahead, as after_failover does: the original goes on giving out its own. The
-- dispatchers of the original are forgotten. With hold, all queues that have jobs
-- or settings are paused first, to be resumed one by one. Answers false where it
-- was at home already; then nothing changes but fences and turns, and pauses. For the
-- schema's owner.
drop function if exists @schema@.adopt();
create or replace function @schema@.adopt(hold boolean default false) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  place constant @schema@.home := @schema@.this_place();
  was   boolean;
begin
  perform @schema@.require_read_committed();
  perform pg_advisory_xact_lock(@schema@.own_mutex('home'));
  was := exists (
    select from @schema@.home h
     where h.here and h.database_oid = place.database_oid and h.database_name = place.database_name
       and h.system_identifier is not distinct from place.system_identifier);
  perform @schema@.after_failover();
  if hold then
    perform @schema@.pause(queue => q.name, reason => 'adopted with hold')
       from (select j.queue as name from @schema@.job j union select d.queue from @schema@.dead_job d
             union select k.name from @schema@.queue k) q;
  end if;
  if not was then
    delete from @schema@.dispatcher;
    insert into @schema@.home select place.*
    on conflict (here) do update
      set system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
          database_name = excluded.database_name, recorded_at = excluded.recorded_at;
  end if;
  return not was;
end $lockstep$;
