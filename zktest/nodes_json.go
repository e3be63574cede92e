package zktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// nodeJSON is a Node in JSON.
type nodeJSON struct {
	Path      string  `json:"path"`
	Text      *string `json:"text,omitempty"`
	Data      []byte  `json:"data,omitempty"`
	ACL       []ACL   `json:"acl,omitempty"`
	Owner     string  `json:"owner,omitempty"`
	Container bool    `json:"container,omitempty"`
	TTL       string  `json:"ttl,omitempty"`
	Sequence  int32   `json:"sequence,omitempty"`
}

// MarshalJSON writes the form that is described at [Node].
func (n Node) MarshalJSON() ([]byte, error) {
	out := nodeJSON{Path: n.Path, ACL: n.ACL, Container: n.Container, Sequence: n.Sequence}
	switch {
	case n.Data == nil:
	case utf8.Valid(n.Data):
		text := string(n.Data)
		out.Text = &text
	default:
		out.Data = n.Data
	}
	if n.Owner != 0 {
		out.Owner = sessionText(n.Owner)
	}
	if n.TTL != 0 {
		out.TTL = n.TTL.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the form that is described at [Node]. The error says what is wrong with
// a session, a TTL, a node with "text" and "data", or what is not known.
func (n *Node) UnmarshalJSON(text []byte) error {
	var in nodeJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return err
	}
	*n = Node{Path: in.Path, Data: in.Data, ACL: in.ACL, Container: in.Container, Sequence: in.Sequence}
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
			return fmt.Errorf("zktest: node %s: TTL %q is not a duration", in.Path, in.TTL)
		}
		n.TTL = ttl
	}
	return nil
}
