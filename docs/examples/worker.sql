-- A worker in plain psql, for the kind 'k' of the queue 'default'. This file is
-- one turn: claim a job, work, finish. It is fed to psql again and again:
--
--   yes '\i worker.sql' | psql -X -q -v ON_ERROR_STOP=1 -v worker=$(uuidgen) "$DATABASE_URL"
--
-- A signal tells that there is something to do; psql can't sleep until one
-- comes, so an idle turn waits a tenth of a second.
\set lease '30 seconds'
\if :{?channel}
\else
  select channel from lockstep.register(:'worker', 'psql', '{default}', '{k}', :'lease') \gset
  listen :channel;
\endif

select due from lockstep.due() \gset
select job ->> 'id' as id, job ->> 'fence' as fence, job ->> 'ordering_key' as key, job -> 'payload' as payload, job is null as idle
  from lockstep.claim(:'worker', 'default', '{k}', 1, :'lease') c
  left join lateral json_array_elements(c.jobs) job on true \gset

\if :idle
  select pg_sleep(0.1), lockstep.register(:'worker', 'psql', '{default}', '{k}', :'lease') \gset nothing_
\else
  begin;
  -- The work goes here, in a transaction that holds the claim: nobody can take
  -- the job away before it commits. Renew the lease in between if it is long.
  select outcome from lockstep.extend(:'worker', array[:id], array[:fence], :'lease') \gset
  select lockstep.assert_claim(:id, :fence) \gset nothing_
  insert into work_done (job_id, ordering_key, payload) values (:id, :'key', :'payload');
  -- The outcome commits with it; the lane goes on by the next turn's due().
  select outcome from lockstep.finish(:'worker', array[:id], array[:fence], '{completed}', array['{"by": "psql"}'::jsonb],
    array[null]::text[], array[null]::interval[], settle_only => true) \gset
  commit;
\endif
