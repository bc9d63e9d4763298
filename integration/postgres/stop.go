package postgres

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// closeGrace is how long Close waits for a server to end by itself.
const closeGrace = 10 * time.Second

// Stop ends the server in order: sessions are disconnected, their transactions
// rolled back, everything is written to the disk. When the context ends first,
// the server is killed and the context's error returned. Stopping a server that
// is down does nothing.
func (s *Server) Stop(ctx context.Context) error {
	return s.end(ctx, syscall.SIGINT)
}

// Crash kills every process of the server at once, with SIGKILL. StartAgain then
// recovers what was committed. Crashing a server that is down does nothing.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
	s.process = nil
}

// Close ends the server and removes its temporary folder; a folder that Config
// named is kept, and its server ended in order. It may be called more than once.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.temporary == nil {
		return s.Stop(ctx)
	}
	// SIGQUIT writes nothing: what it would write is removed next.
	return errors.Join(s.end(ctx, syscall.SIGQUIT), s.temporary.remove())
}

// end signals the postmaster and waits for it.
func (s *Server) end(ctx context.Context, signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.running() {
		s.process = nil
		return nil
	}
	ended := s.process
	s.process = nil
	_ = ended.cmd.Process.Signal(signal) // fails only when it is gone
	select {
	case <-ended.done:
		return nil
	case <-ctx.Done():
		ended.kill()
		return ctx.Err()
	}
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the postmaster and its children with SIGKILL. The postmaster is
// halted first, so that it neither starts another child nor tidies up.
func (p *process) kill() {
	if !p.running() {
		return
	}
	pid := p.cmd.Process.Pid
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
