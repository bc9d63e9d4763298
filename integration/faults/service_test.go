package faults

import (
	"errors"
	"net"
	"net/rpc"
	"strings"
	"sync"
)

// service lets other processes talk to a witness.
type service struct {
	*Witness
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func serve(w *Witness) (*service, error) {
	server := rpc.NewServer()
	if err := server.RegisterName("Witness", w); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{Witness: w, listener: listener, conns: map[net.Conn]struct{}{}}
	s.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[conn] = struct{}{}
			s.mu.Unlock()
			s.work.Go(func() {
				server.ServeConn(conn)
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.conns, conn)
			})
		}
	})
	return s, nil
}

func (s *service) address() string { return s.listener.Addr().String() }

func (s *service) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// teller is a process's line to the witness. Without a witness there is nothing
// to work for: an error of the line ends the process.
type teller struct{ *rpc.Client }

func tellTo(address string) (*teller, error) {
	client, err := rpc.Dial("tcp", address)
	return &teller{client}, err
}

// tell calls a method of the witness, and returns its answer.
func tell[A, B any](t *teller, method string, args A) (answer B) {
	if err := t.Call("Witness."+method, args, &answer); err != nil {
		if errors.Is(err, rpc.ErrShutdown) {
			select {} // the test is over, and this process with it
		}
		panic("the witness does not answer: " + err.Error())
	}
	return answer
}

// transactionOf is the transaction that a job's marker names.
func transactionOf(marker string) string {
	id, _, _ := strings.Cut(marker, "/")
	return id
}
