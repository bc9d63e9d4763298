package languages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// rolesOfPages are the roles that the pages make: they are the server's.
const rolesOfPages = "web_api shop_app shop_worker shop_oncall shop_metrics shop_api"

// TestReferenceExamples runs every example of the reference, in order, in one
// database, and compares what comes back with what the pages say.
func TestReferenceExamples(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	conn := db.Conn(t).PgConn()
	t.Cleanup(func() {
		for _, role := range strings.Fields(rolesOfPages) {
			if _, err := conn.Exec(context.Background(), "reset role; drop owned by "+role+" cascade; drop role "+role).ReadAll(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, name := range pages {
		found := examplesOf(page(t, name))
		if len(found) < 10 {
			t.Fatalf("%s has %d examples", name, len(found))
		}
		for _, e := range found {
			if problem := e.run(t.Context(), conn); problem != "" {
				t.Errorf("docs/%s: %s\n%s", name, problem, e.sql)
			}
		}
	}
}

// run runs the example and says where it differs from the page; "" for nowhere.
func (e example) run(ctx context.Context, conn *pgconn.PgConn) string {
	rows, err := e.answer(ctx, conn)
	var pg *pgconn.PgError
	switch {
	case e.code != "" && (!errors.As(err, &pg) || pg.Code != e.code):
		return fmt.Sprintf("it should fail with %s: %v", e.code, err)
	case e.code == "" && err != nil:
		return err.Error()
	case e.rows != nil && !slices.EqualFunc(e.rows, rows, fits):
		return "it answers\n" + strings.Join(rows, "\n") + "\nand not\n" + strings.Join(e.rows, "\n")
	}
	return ""
}

// answer is the rows of a statement, spelled as the pages do.
func (e example) answer(ctx context.Context, conn *pgconn.PgConn) ([]string, error) {
	if e.data != "" {
		_, err := conn.CopyFrom(ctx, strings.NewReader(e.data), itsEnd.ReplaceAllString(e.sql, ""))
		return nil, err
	}
	results, err := conn.Exec(ctx, e.sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, result := range results {
		for _, row := range result.Rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				switch {
				case cell == nil:
					cells[i] = "null"
				case result.FieldDescriptions[i].DataTypeOID == pgtype.BoolOID:
					cells[i] = map[string]string{"t": "true", "f": "false"}[string(cell)]
				default:
					cells[i] = string(cell)
				}
			}
			rows = append(rows, strings.Join(cells, " | "))
		}
	}
	return rows, nil
}

// The check of the examples finds what is wrong with one, and nothing else.
func TestWrongExamplesAreFound(t *testing.T) {
	t.Parallel()
	const wrong = "```sql\n" + `
select 1; -- it's a comment
-- → 1
select 1,
  2 > 1, null;
-- → 1 | true | …
create temporary table copied (n int, t text);
copy copied from stdin;
7	seven;
\.
select * from copied;
-- → 7 | seven;
select 1 / 0;
-- ! 22012
` + "```\nno SQL;\n```sql\n" + `
select 1;
-- → 2
select 1;
-- ! 22012
select 1 / 0;
select n from generate_series(1, 2) n;
-- → 1
select 1 /
` + "```"
	conn := testdb.New(t).Conn(t).PgConn()
	var problems []int
	for i, e := range examplesOf(wrong) {
		if e.run(t.Context(), conn) != "" {
			problems = append(problems, i)
		}
	}
	if want := []int{6, 7, 8, 9, 10}; !slices.Equal(problems, want) {
		t.Errorf("found wrong: %v, want %v", problems, want)
	}
}
