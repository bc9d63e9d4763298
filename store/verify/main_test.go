package verify_test

import (
	"os"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }
