// Command find prints the folder with PostgreSQL's server binaries that the
// demo and the tests will use, or how to install them, and then ends in 1.
package main

import (
	"fmt"
	"os"

	"github.com/lockstep-pg/lockstep/integration/postgres"
)

func main() {
	dir, err := postgres.FindBinaries()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
