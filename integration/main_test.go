package integration

import (
	"os"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	workerproc.Register("history", historyWorker)
	os.Exit(workerproc.Main(m))
}
