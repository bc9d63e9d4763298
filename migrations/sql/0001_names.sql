-- replaceable
-- Names and numbers that everything else is built on.
--
-- @schema@ and @schema_literal@ are replaced by the schema's name, quoted as
-- an identifier and as a string. All functions name what they use in full and
-- pin search_path, so that nothing of the caller's can stand in their way.

-- lock_number hashes a lane (or a queue, a mutex ...) into the 64-bit space of
-- advisory locks. The class and the schema are part of it, so two kinds of
-- lock, and two installs in one database, do not meet but by a collision, and
-- a collision may cost a wait, never an error: every user of these numbers
-- takes them in ascending order, or only tries.
create or replace function @schema@.lock_number(class text, queue text, tenant text, ordering_key text) returns bigint
language sql immutable parallel safe
return pg_catalog.hashtextextended(ordering_key collate pg_catalog."C",
         pg_catalog.hashtextextended(tenant collate pg_catalog."C",
           pg_catalog.hashtextextended(queue collate pg_catalog."C",
             pg_catalog.hashtextextended(class collate pg_catalog."C",
               pg_catalog.hashtextextended(@schema_literal@ collate pg_catalog."C", 0)))));

-- entry_lock: who enters a lane, or retires it, holds it until the commit.
create or replace function @schema@.entry_lock(queue text, tenant text, ordering_key text) returns bigint
language sql immutable parallel safe
return @schema@.lock_number('entry', queue, tenant, ordering_key);

-- queue_lock: the coarse lock. Shared beside every entry lock; exclusive
-- instead of them for a transaction that enters very many lanes.
create or replace function @schema@.queue_lock(queue text) returns bigint
language sql immutable parallel safe
return @schema@.lock_number('queue', queue, '', '');

-- run_lock: a transactional handler holds it. Another number than the entry
-- lock's, so that a long handler does not hold up its lane's producers. A job
-- without a key has one of its own, since a null would hash to null.
create or replace function @schema@.run_lock(queue text, tenant text, ordering_key text, id bigint) returns bigint
language sql immutable parallel safe
return case when ordering_key is null or ordering_key = ''
            then @schema@.lock_number('run job', queue, tenant, id::text)
            else @schema@.lock_number('run', queue, tenant, ordering_key) end;

-- mutex_lock: named mutexes of users.
create or replace function @schema@.mutex_lock(name text) returns bigint
language sql immutable parallel safe
return @schema@.lock_number('mutex', '', '', name);

-- own_mutex: the mutexes of the functions here.
create or replace function @schema@.own_mutex(name text) returns bigint
language sql immutable parallel safe
return @schema@.lock_number('own mutex', '', '', name);

-- channel is where signals of this schema go. It is short whatever the
-- schema's name is, since a channel's name may have 63 bytes.
create or replace function @schema@.channel() returns text
language sql immutable parallel safe
return 'lockstep_' || pg_catalog.to_hex(@schema@.lock_number('channel', '', '', ''));

-- queue_hash is what signals call a queue.
create or replace function @schema@.queue_hash(queue text) returns text
language sql immutable parallel safe
return pg_catalog.to_hex(pg_catalog.hashtextextended(queue collate pg_catalog."C", 0));

-- setting names a transaction-local note of this schema.
create or replace function @schema@.setting(what text) returns text
language sql immutable parallel safe
return 'lockstep_' || pg_catalog.to_hex(@schema@.lock_number('setting', '', '', '')) || '.' || what;

-- nobody is the worker of a job that no worker has: a value of full width, so
-- that a claim's new row version is no longer than the old one.
create or replace function @schema@.nobody() returns uuid
language sql immutable parallel safe
return '00000000-0000-0000-0000-000000000000'::uuid;

-- The limits of what is stored, as functions so that set_limits can change
-- them: stable, since a session keeps what an immutable one said. Made once, so
-- that an upgrade leaves what was set.
do $lockstep$ begin
  if to_regprocedure($name$@schema@.payload_limit()$name$) is null then
    create function @schema@.payload_limit() returns integer
    language sql stable parallel safe
    return 1048576;
  end if;
end $lockstep$;

do $lockstep$ begin
  if to_regprocedure($name$@schema@.text_limit()$name$) is null then
    create function @schema@.text_limit() returns integer
    language sql stable parallel safe
    return 65536;
  end if;
end $lockstep$;

-- require_read_committed: a lock answers newer than the snapshot of its
-- statement, so the state functions look again after each lock, in a new
-- statement. That only helps where a new statement has a new snapshot.
create or replace function @schema@.require_read_committed() returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = 'LS001',
      message = format('this function needs READ COMMITTED, the transaction is %s', upper(current_setting('transaction_isolation'))),
      hint = 'begin with: begin isolation level read committed';
  end if;
end $lockstep$;
