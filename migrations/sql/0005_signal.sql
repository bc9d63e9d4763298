-- replaceable
-- Signals: one NOTIFY per transaction, queue and class, and only ever a hint.
--
--   r <queue> <turn>   a job of the queue may run; the first turn that
--                      this transaction made runnable there
--   d <queue> <ms>     a job falls due then (milliseconds of the epoch)
--   w <queue>          sweep this queue
--   c <ids> | c *      cancels were asked for
--   p                  pauses changed
--
-- What was said is noted in a transaction-local setting that names the
-- transaction: a rolled-back savepoint takes the note back together with its
-- NOTIFY, and a note of another transaction counts for nothing.
create or replace function @schema@.signal(class text, queue text, number bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  note constant text := @schema@.setting('said');
  xid  constant text := pg_current_xact_id()::text || ';';
  name constant text := case class when 'p' then 'p' else class || ' ' || @schema@.queue_hash(queue) end;
  said text := coalesce(current_setting(note, true), '');
  before bigint;
begin
  if current_setting('lockstep.signals', true) = 'off' then
    return; -- for two-phase commit: PREPARE TRANSACTION refuses after NOTIFY
  end if;
  if not starts_with(said, xid) then
    said := xid;
  end if;
  if class = 'd' then
    before := substring(said from ';' || name || ' ([0-9]{1,18});')::bigint;
    if before <= number then
      return;
    end if;
    said := said || name || ' ' || number || ';;';
    if before is not null then -- keep the earliest alone
      said := replace(said, ';' || name || ' ' || before || ';', ';');
    end if;
  elsif strpos(said, ';' || name || ';') > 0 then
    return;
  else
    said := said || name || ';;';
  end if;
  perform set_config(note, said, true);
  perform pg_notify(@schema@.channel(), name || case when class in ('r', 'd') then ' ' || number else '' end);
end $lockstep$;
