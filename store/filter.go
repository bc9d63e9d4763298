package store

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// where collects conditions and their arguments.
type where struct {
	parts []string
	args  []any
}

// add adds a condition, in which $ stands for its argument.
func (w *where) add(condition string, arg any) {
	w.args = append(w.args, arg)
	w.parts = append(w.parts, strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(w.args))))
}

// equal adds conditions for the values that are given.
func (w *where) equal(values ...text) {
	for _, v := range values {
		if v.value != "" {
			w.add(v.field+" = $", v.value)
		}
	}
}

// clause is "where …", or nothing.
func (w *where) clause() string {
	if len(w.parts) == 0 {
		return ""
	}
	return " where " + strings.Join(w.parts, " and ")
}

// planned are the arguments of a statement that is to be planned anew for them
// each time, so that the planner leaves out tables that can't hold what is
// looked for.
func (w *where) planned() []any {
	return append([]any{pgx.QueryExecModeExec}, w.args...)
}
