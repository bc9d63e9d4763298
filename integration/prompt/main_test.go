package prompt

import (
	"flag"
	"os"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// strict holds every single start to the limit. Without it the test bears with
// a machine that has other work too.
var strict = flag.Bool("strict", false, "every start within its limit; for a machine that does nothing else")

func TestMain(m *testing.M) {
	puppet.Register()
	os.Exit(workerproc.Main(m))
}
