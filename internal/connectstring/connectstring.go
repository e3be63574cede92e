// Package connectstring takes apart the connect strings of ZooKeeper's clients.
package connectstring

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework"
)

// Parse takes "zk1:2181,zk2:2181/chroot" apart. chroot is "" or a path, "/chroot". Servers are not looked at,
// but must not be empty.
func Parse(text string) (servers []string, chroot string, err error) {
	hosts := text
	if i := strings.IndexByte(text, '/'); i >= 0 {
		hosts, chroot = text[:i], text[i:]
	}
	if chroot == "/" {
		chroot = ""
	}
	if chroot != "" {
		if err := framework.ValidatePath(chroot); err != nil {
			return nil, "", fmt.Errorf("connect string %q: %w", text, err)
		}
	}
	for server := range strings.SplitSeq(hosts, ",") {
		server = strings.TrimSpace(server)
		if server == "" {
			return nil, "", fmt.Errorf("connect string %q: %w", text, errNoServer)
		}
		servers = append(servers, server)
	}
	return servers, chroot, nil
}

var errNoServer = errors.New("a server is empty")
