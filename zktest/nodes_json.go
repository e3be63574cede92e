package zktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// nodeJSON is a Node in JSON.
type nodeJSON struct {
	Path      string    `json:"path"`
	Text      *string   `json:"text,omitempty"`
	Data      []byte    `json:"data,omitempty"`
	ACL       []aclJSON `json:"acl,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Container bool      `json:"container,omitempty"`
	TTL       string    `json:"ttl,omitempty"`
	Sequence  int32     `json:"sequence,omitempty"`
}

// aclJSON is an entry of an access list in JSON.
type aclJSON struct {
	Perms  int32  `json:"perms"` // the sum of read 1, write 2, create 4, delete 8 and admin 16
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
}

// MarshalJSON encodes the node in the format of [Node].
func (n Node) MarshalJSON() ([]byte, error) {
	out := nodeJSON{Path: n.Path, Container: n.Container, Sequence: n.Sequence}
	for _, a := range n.ACL {
		out.ACL = append(out.ACL, aclJSON(a))
	}
	switch {
	case n.Data == nil:
	case utf8.Valid(n.Data):
		text := string(n.Data)
		out.Text = &text
	default:
		out.Data = n.Data
	}
	if n.Owner != 0 {
		out.Owner = wire.SessionText(n.Owner)
	}
	if n.TTL != 0 {
		out.TTL = n.TTL.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON decodes a node in the format of [Node]. It fails if a session or TTL is invalid, if
// both "text" and "data" are set, or if a field is unknown.
func (n *Node) UnmarshalJSON(text []byte) error {
	var in nodeJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return err
	}
	*n = Node{Path: in.Path, Data: in.Data, Container: in.Container, Sequence: in.Sequence}
	if in.ACL != nil {
		n.ACL = []zk.ACL{}
	}
	for _, a := range in.ACL {
		n.ACL = append(n.ACL, zk.ACL(a))
	}
	if in.Text != nil {
		if in.Data != nil {
			return fmt.Errorf("zktest: node %s has both text and data", in.Path)
		}
		n.Data = []byte(*in.Text)
	}
	if in.Owner != "" {
		owner, err := strconv.ParseUint(in.Owner, 0, 64)
		if err != nil {
			return fmt.Errorf("zktest: node %s: owner: %w", in.Path, err)
		}
		n.Owner = int64(owner)
	}
	if in.TTL != "" {
		ttl, err := time.ParseDuration(in.TTL)
		if err != nil || ttl < 0 {
			return fmt.Errorf("zktest: node %s: invalid TTL %q: must be a duration of at least 0, such as 1h", in.Path, in.TTL)
		}
		n.TTL = ttl
	}
	return nil
}
