package framework

import (
	"fmt"
	"strings"

	"github.com/gocurator/curator/internal/engine"
)

// ParseConnectString parses a connect string of Java's clients: "zk1:2181,zk2:2181/app/a" names two
// servers and the chroot "app/a". Pass the chroot, which may be empty, to [WithNamespace]. Unlike
// in Java, the chroot's node need not exist.
//
//	servers, chroot, err := framework.ParseConnectString(os.Getenv("ZOOKEEPER"))
//	if err != nil { ... }
//	client, err := framework.New(servers, framework.WithNamespace(chroot))
//
// A chroot with a comma is refused: Java reads "zk1/app,zk2/app" as the server zk1 and the chroot
// "app,zk2/app", where no other client looks for a lock.
//
// Errors are
//   - [ErrBadPath] if ZooKeeper does not allow the chroot as a path;
//   - [ErrBadArgument] if s is otherwise invalid.
func ParseConnectString(s string) (servers []string, chroot string, err error) {
	if err := engine.CheckScheme(s); err != nil {
		return nil, "", err
	}
	hosts, chroot, _ := strings.Cut(strings.TrimSpace(s), "/")
	if strings.Contains(chroot, ",") {
		return nil, "", fmt.Errorf("%w: connect string %q: only the last server may have a chroot, without a comma", ErrBadArgument, s)
	}
	chroot = strings.TrimSuffix(chroot, "/")
	if err := validateNamespace(chroot); err != nil {
		return nil, "", fmt.Errorf("connect string %q: %w", s, err)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if strings.TrimSpace(host) != "" { // as Java does
			servers = append(servers, host)
		}
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("%w: connect string %q names no server", ErrBadArgument, s)
	}
	if servers, err = withPorts(servers); err != nil {
		return nil, "", fmt.Errorf("connect string %q: %w", s, err)
	}
	return servers, chroot, nil
}

// withPorts returns a copy of servers, each with a port.
func withPorts(servers []string) ([]string, error) {
	list := make([]string, len(servers))
	for i, s := range servers {
		address, err := engine.WithPort(s)
		if err != nil {
			return nil, err
		}
		list[i] = address
	}
	return list, nil
}
