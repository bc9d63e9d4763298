package teeth

// mutant is the module without one of its rules.
type mutant struct {
	name   string
	edits  []edit
	suites []suite // what must turn red: each test of each
}

// edit replaces a text that must be in the file exactly once.
type edit struct{ file, old, new string }

// suite is tests of one package.
type suite struct {
	pkg   string // below the module's root
	tests []string
	args  []string // flags of the package's tests
}

// The tests that judge behaviour, each with what makes it find things sooner.
func model(tests ...string) suite {
	return suite{"integration/model", tests, []string{"-rapid.shrinktime=1ms"}}
}

func order(tests ...string) suite    { return suite{"integration/order", tests, nil} }
func protocol(tests ...string) suite { return suite{"integration/protocol", tests, nil} }
func workers(tests ...string) suite  { return suite{"dispatcher", tests, nil} }

func faults(tests ...string) suite { return suite{"integration/faults", tests, nil} }

const (
	sql  = "migrations/sql/"
	next = "where j.id = any (nexts) and j.stage::text = 'w'"
)

var mutants = []mutant{
	{
		name:   "a no-op heartbeat",
		edits:  []edit{{"dispatcher/heartbeat.go", "err := h.renew(ctx, claims)", "err := h.renew(ctx, claims[:0])"}},
		suites: []suite{workers("TestC83HeartbeatsNeedNoPool")},
	},
	{
		name:   "a lease that is reckoned by the wall clock",
		edits:  []edit{{"dispatcher/leases.go", "case !now.Before(end):", "case !now.Round(0).Before(end):"}},
		suites: []suite{faults("TestC65ClockSkew/ahead")},
	},
	{
		name:   "a handler that starts when its lease is over",
		edits:  []edit{{"dispatcher/attempt.go", "if a.shift.leases.over(a, time.Now()) {", "if false {"}},
		suites: []suite{workers("TestLateClaimIsNotRun")},
	},
	{
		name: "a finish that ignores the fence",
		edits: []edit{{
			sql + "0012_finish.sql",
			"where l.id = u.id and l.fence = u.fence and l.worker = finish.worker", "where l.id = u.id",
		}},
		suites: []suite{model("TestModel"), protocol("TestALateReportOfALostJobIsLost")},
	},
	{
		name: "a claim that takes waiting jobs",
		edits: []edit{{
			sql + "0010_claim.sql",
			"j.stage = 'r' and j.lease_until <= claim.looked_at", "j.stage in ('r', 'w') and j.lease_until <= claim.looked_at",
		}},
		suites: []suite{model("TestModel"), order("TestOrder"), workers("TestC33OneAtATime")},
	},
	{
		name: "an enqueue without the entry lock",
		edits: []edit{
			{sql + "0008_place.sql", "perform @schema@.lock_lanes(queues, tenants, keys, first_round);", ""},
			{sql + "0008_place.sql", "if not @schema@.try_entry(place_one.queue, place_one.tenant, place_one.ordering_key) then", "if false then"},
		},
		suites: []suite{order("TestTeeth/with_all_rules")},
	},
	{
		name: "a newcomer that overtakes the waiting jobs of a headless lane",
		edits: []edit{
			{sql + "0008_place.sql", "if waiting and not headed then", "if false then"},
			{sql + "0008_place.sql", "case when headed or waiting then", "case when headed then"},
		},
		suites: []suite{model("TestModel"), order("TestOrder")},
	},
	{
		name:   "a promotion that does not lock the next job",
		edits:  []edit{{sql + "0009_leave.sql", next + " for update skip locked);", next + ");"}},
		suites: []suite{model("TestModel"), order("TestTeeth/with_all_rules")},
	},
	{
		name: "a retirement without the second look",
		edits: []edit{{
			sql + "0009_leave.sql", "undecided := gone || locked;",
			"clear := clear || locked; successors := successors || array_fill(null::bigint, array[cardinality(locked)]); undecided := gone;",
		}},
		suites: []suite{{"integration/protocol", []string{"TestACommitMeetsAFinish"}, []string{"-protocol.meetings=6000"}}},
	},
	{
		name: "a promotion without its signal",
		edits: []edit{{
			sql + "0012_finish.sql", "perform @schema@.tell_ready(array(select u.id from unnest(fresh) u(id) where u.id <> all (mine)));", "",
		}},
		suites: []suite{workers("TestLaneAlternatesBetweenDispatchers"), protocol("TestWhateverMakesAJobRunnableSignals")},
	},
}
