package sidecar

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// shortestToken is how long a token must be, in bytes: one that can be guessed
// is none.
const shortestToken = 16

// access are the tokens of the API, "" where there is none.
type access struct{ write, read string }

// access reads the tokens of the API, and refuses to serve it without one
// beyond this machine.
func (s *Settings) access() (access, error) {
	var a access
	var err error
	if a.write, err = s.token("api_token_file", s.APIToken, s.APITokenFile); err != nil {
		return a, err
	}
	if a.read, err = s.token("api_read_token_file", s.APIReadToken, s.APIReadTokenFile); err != nil {
		return a, err
	}
	if a.write != "" && a.write == a.read {
		return a, s.bad("api_read_token_file", errors.New("it holds the token that may write; give it one of its own"))
	}
	if a.write+a.read == "" && !loopback(s.Listen) {
		return a, s.bad("listen", fmt.Errorf("%s can be reached from other machines, and the API there needs a token: give --api-token-file, set LOCKSTEP_API_TOKEN, or listen on 127.0.0.1", s.Listen))
	}
	return a, nil
}

// CheckAccess tells what is wrong with the settings of who may use the API.
func (s *Settings) CheckAccess() error {
	_, err := s.access()
	return err
}

// token is the one given, or what a file holds. Errors never quote it.
func (s *Settings) token(path, given, file string) (string, error) {
	if given != "" && file != "" {
		return "", s.bad(path, errors.New("a file and a variable both give this token; give one of them"))
	}
	token := given
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", s.bad(path, err)
		}
		token = strings.TrimSpace(string(content))
	}
	switch {
	case token == "" && file == "":
		return "", nil
	case len(token) < shortestToken:
		return "", s.bad(path, fmt.Errorf("the token is %d bytes long; give at least %d, for example from: openssl rand -hex 32", len(token), shortestToken))
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", s.bad(path, errors.New("the token holds spaces or other characters that can't stand in a header; give letters and digits"))
	}
	return token, nil
}

// loopback tells whether an address can be reached from this machine alone.
func loopback(listen string) bool {
	address, err := net.ResolveTCPAddr("tcp", listen)
	return err == nil && address.IP.IsLoopback()
}
