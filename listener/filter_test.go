package listener_test

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockstep-pg/lockstep/integration/postgres"
)

// filter is a proxy that answers LISTEN itself, with an error, while refuse is
// set. Everything else goes to the server and back.
type filter struct {
	t        *testing.T
	listener net.Listener
	server   string
	refuse   atomic.Bool
	work     sync.WaitGroup
}

func startFilter(t *testing.T, server *postgres.Server) *filter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &filter{t: t, listener: l, server: net.JoinHostPort(server.Host(), strconv.Itoa(server.Port()))}
	f.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.work.Wait()
	})
	return f
}

func (f *filter) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// serve ends with either side. The server only speaks when it is spoken to, so
// our own answers don't get mixed up with its.
func (f *filter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", f.server)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.work.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	})
	defer server.Close()

	in, out := pgproto3.NewBackend(client, client), pgproto3.NewFrontend(server, server)
	startup, err := in.ReceiveStartupMessage()
	for message := pgproto3.FrontendMessage(startup); err == nil; message, err = in.Receive() {
		query, isQuery := message.(*pgproto3.Query)
		if isQuery && strings.HasPrefix(query.String, "listen") && f.refuse.Load() {
			in.Send(&pgproto3.ErrorResponse{
				Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42501", Message: "no LISTEN here",
			})
			in.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = in.Flush()
			continue
		}
		out.Send(message)
		_ = out.Flush()
	}
}
