package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	urlFlag     = "--database-url"
	urlVariable = "LOCKSTEP_DATABASE_URL"
	// urlOrigin says what the user gave, if it was not urlVariable itself.
	urlOrigin = "LOCKSTEP_DATABASE_URL_ORIGIN"

	listenURLFlag     = "--listen-database-url"
	listenURLVariable = "LOCKSTEP_LISTEN_DATABASE_URL"
)

// hidePassword replaces the process by itself, with the database URLs that hold a
// password moved from the arguments, which every user of the machine can list,
// to the environment, which only its owner can. It returns if there is nothing
// to hide.
func hidePassword(args, environ []string) error {
	given := len(args)
	args, environ = hide(args, environ, urlFlag, urlVariable, urlOrigin+"="+urlFlag)
	args, environ = hide(args, environ, listenURLFlag, listenURLVariable)
	if len(args) == given {
		return nil
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, args, environ)
	}
	return fmt.Errorf("hiding the password of a database URL: %w", err)
}

// hide moves a flag's database URL to a variable, if it holds a password, and
// sets what goes with that.
func hide(args, environ []string, flag, variable string, with ...string) (rest, changed []string) {
	rest, url := withoutURL(args, flag)
	if url == "" {
		return args, environ
	}
	config, err := pgconn.ParseConfig(url)
	if err != nil || config.Password == "" {
		return args, environ // an unusable URL ends the process in a moment anyway
	}
	for _, entry := range append(with, variable+"="+url) {
		name, _, _ := strings.Cut(entry, "=")
		environ = slices.DeleteFunc(slices.Clone(environ), func(old string) bool { return strings.HasPrefix(old, name+"=") })
		environ = append(environ, entry)
	}
	return rest, environ
}

// withoutURL takes a flag for a database URL and its value out of args. It leaves
// alone what comes after "--" and a line that also names a file, which is an error.
func withoutURL(args []string, flag string) (rest []string, url string) {
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], flag+"=")
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...), url
		case strings.HasPrefix(args[i], flag+"-file"):
			return append(rest, args[i:]...), ""
		case joined:
			url = value
		case args[i] == flag && i+1 < len(args):
			i++
			url = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, url
}
