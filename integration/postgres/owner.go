package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that a server of root's runs as; nil stands for the current
// user, who may run a server.
type owner struct {
	name string
	uid  uint32
	gid  uint32
}

// serverOwner chooses the user; only root needs another than itself.
func serverOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &owner{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as")
}

// Credential is the user that servers of root's run as, and that other programs
// which refuse root may run as; nil for any other user, who may run them.
func Credential() (*syscall.Credential, error) {
	owner, err := serverOwner()
	return owner.credential(), err
}

func (o *owner) credential() *syscall.Credential {
	if o == nil {
		return nil
	}
	return &syscall.Credential{Uid: o.uid, Gid: o.gid}
}

// prepare creates the server's folder and gives it to its user, if nobody else
// has put anything into it.
func (o *owner) prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if o == nil {
		return nil
	}
	if !o.reaches(filepath.Dir(dir)) {
		return fmt.Errorf("the folder %s can't be reached by the user %s, as whom root runs PostgreSQL", dir, o.name)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return err
	}
	return o.own(dir)
}

// own gives a file or folder to the server's user.
func (o *owner) own(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}

// reaches tells whether every folder up to and with dir lets the user through.
func (o *owner) reaches(dir string) bool {
	if o == nil {
		return true
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		if !o.enters(dir) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// enters tells whether the folder's mode gives the user the right to search it.
func (o *owner) enters(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	execute := os.FileMode(0o001)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == o.uid {
		execute = 0o100
	} else if ok && stat.Gid == o.gid {
		execute = 0o010
	}
	return info.Mode()&execute != 0
}
