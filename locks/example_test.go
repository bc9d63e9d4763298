package locks_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/locks"
)

// One of many processes rebuilds the report; the others go on with their work.
func ExampleLocks_TryMutex() {
	var pool *pgxpool.Pool // yours

	held, err := locks.New("").TryMutex(context.Background(), pool, "monthly report",
		func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "refresh materialized view report")
			return err
		})
	switch {
	case err != nil:
		fmt.Println(err)
	case !held:
		fmt.Println("somebody else is at it")
	}
}
