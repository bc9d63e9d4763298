package main

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-pg/lockstep/store"
)

type adoptCommand struct {
	databaseFlags

	Hold bool `help:"Pause every queue that has jobs or settings first; lockstep resume --queue lets one go on."`
	JSON bool `name:"json" help:"Print the result as one JSON object."`
}

// Run makes the database the home of the schema.
func (c *adoptCommand) Run(a *app) error {
	conn, err := c.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	adopted, err := store.New(conn).In(c.schema(a.env)).Adopt(a.ctx, c.Hold)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(map[string]bool{"adopted": adopted})
	}
	text := "schema %q was at home here already; fences and turns were moved ahead\n"
	if adopted {
		text = "schema %q is at home here from now on: workers of this database may run its jobs\n"
	}
	if c.Hold {
		text += "its queues are paused; lockstep resume --queue lets one go on\n"
	}
	_, err = fmt.Fprintf(a.stdout, text, c.schema(a.env))
	return err
}
