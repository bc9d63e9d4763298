package protocol_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// What a worker's call leaves out is refused by the argument's name, rather than
// answered with nothing.
func TestWorkersCallsAreComplete(t *testing.T) {
	t.Parallel()
	conn := testdb.New(t).Conn(t)
	for call, field := range map[string]string{
		"register(null, 'n', '{q}', '{k}', '1 min')":                                   "worker",
		"register(gen_random_uuid(), 'n', '{q}', null, '1 min')":                       "queues",
		"register(gen_random_uuid(), 'n', '{q}', '{k}', null)":                         "lease",
		"claim(null, 'q', '{k}', 1, '1 min')":                                          "worker",
		"claim(gen_random_uuid(), null, '{k}', 1, '1 min')":                            "queue",
		"claim(gen_random_uuid(), 'q', null, 1, '1 min')":                              "kinds",
		"claim(gen_random_uuid(), 'q', '{k}', null, '1 min')":                          "max",
		"claim(gen_random_uuid(), 'q', '{k}', 1, null)":                                "lease",
		"extend(gen_random_uuid(), null, null, '1 min')":                               "ids",
		"extend(gen_random_uuid(), '{1,2}', '{1}', '1 min')":                           "ids",
		"extend(gen_random_uuid(), '{1}', null, '1 min')":                              "ids",
		"extend(gen_random_uuid(), '{1}', '{1}', null)":                                "lease",
		"finish(gen_random_uuid(), '{1}', '{1,2}', '{dead}', '{null}', '{x}', '{0}')":  "ids",
		"finish(gen_random_uuid(), '{1}', '{1}', '{done}', '{null}', '{x}', '{0}')":    "outcomes",
		"finish(gen_random_uuid(), '{1,1}', '{1,1}', '{dead}', '{null}', '{x}', null)": "ids",
		"complete(gen_random_uuid(), null, 1)":                                         "ids",
		"complete(null, 1, 1)":                                                         "worker",
	} {
		_, err := conn.Exec(t.Context(), "select lockstep."+call)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "LS002" || refused.ColumnName != field {
			t.Errorf("%s: %v, want LS002 for %s", call, err, field)
		}
	}
}
