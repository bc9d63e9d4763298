-- replaceable
-- Kinds by pattern: one that ends in * stands for all that begin like it.

-- kind_rank is how closely a kind is met by patterns: by its whole name best,
-- else by the longest prefix; -1 if by none.
create or replace function @schema@.kind_rank(kind text, patterns text[]) returns integer
language sql immutable parallel safe
begin atomic
  select coalesce(max(case when p = kind then 1000 else length(p) - 1 end), -1) from unnest(patterns) p
   where p = kind or (right(p, 1) = '*' and starts_with(kind, left(p, -1)));
end;

-- kind_wanted tells whether a worker that asked for kinds, except some, wants
-- one: the closer of the two decides.
create or replace function @schema@.kind_wanted(kind text, kinds text[], except_kinds text[]) returns boolean
language sql immutable parallel safe
return @schema@.kind_rank(kind, kinds) > @schema@.kind_rank(kind, except_kinds);

-- ready_kinds are the kinds of a queue that a claim looks for, by name. For
-- patterns, those with a job in the ready line: one look into its index each.
create or replace function @schema@.ready_kinds(queue text, kinds text[], except_kinds text[]) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  by_name constant boolean := not exists (select 1 from unnest(ready_kinds.kinds) k where right(k, 1) = '*');
  found_kinds text[];
  last text := '';
begin
  if by_name and cardinality(ready_kinds.except_kinds) = 0 then
    return array(select distinct k from unnest(ready_kinds.kinds) k); -- a kind looked for twice would take two of max for each job
  end if;
  found_kinds := array(select distinct k from unnest(ready_kinds.kinds) k
                        where @schema@.kind_wanted(k, ready_kinds.kinds, ready_kinds.except_kinds));
  if by_name then
    return found_kinds;
  end if;
  loop
    last := (select j.kind from @schema@.job j
              where j.queue = ready_kinds.queue and j.kind > last and j.stage = 'r' order by j.kind limit 1);
    exit when last is null;
    if last <> all (found_kinds) and @schema@.kind_wanted(last, ready_kinds.kinds, ready_kinds.except_kinds) then
      found_kinds := found_kinds || last;
    end if;
  end loop;
  return found_kinds;
end $lockstep$;
