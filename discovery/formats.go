package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
)

// Format identifies how the nodes that a [Discovery] reads are encoded: see [WithFormat].
type Format int

const (
	// Curator is the format of Java's x-discovery, Spring Cloud and Dubbo. It is the default.
	Curator Format = iota

	// Serverset is the format of Twitter's serversets, as of Finagle and Aurora:
	// {"serviceEndpoint":{"host":h,"port":n},"additionalEndpoints":{},"status":"ALIVE","shard":0}.
	// An instance with another status is disabled. The payload is the whole object.
	Serverset

	// Nerve is the format of Airbnb's nerve: {"host":h,"port":n,"name":id}. The payload is the
	// whole object.
	Nerve

	// HostPort is the plain text host:port, which go-kit registers. The payload is empty.
	HostPort
)

// formats are the names of formats, and how an instance is read from data that are not empty.
var formats = [...]struct {
	name string
	read func(data []byte) (member, error)
}{
	Curator:   {name: "curator"},
	Serverset: {"serverset", readServerset},
	Nerve:     {"nerve", readNerve},
	HostPort:  {"hostport", readHostPort},
}

// String returns the format's name: curator, serverset, nerve or hostport.
func (f Format) String() string {
	if f.valid() {
		return formats[f].name
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

func (f Format) valid() bool { return f >= 0 && int(f) < len(formats) }

// ParseFormat returns the format with that name, or framework.ErrBadArgument.
func ParseFormat(name string) (Format, error) {
	for f := range formats {
		if formats[f].name == name {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown format %q", framework.ErrBadArgument, name)
}

// WithFormat sets the format of the nodes. All formats except [Curator] are read-only: Register and
// Write return framework.ErrBadArgument. A node of another format is skipped and reported: see
// [WithUnreadable].
func WithFormat(f Format) Option {
	return opt.Checked(f.valid(), func(c *config) { c.format = f }, "unknown format %d", int(f))
}

// member is an instance of a format that is not Curator's.
type member struct {
	id       string // "" for the node's name
	host     string
	port     whole
	payload  json.RawMessage // nil: none
	disabled bool
}

func readServerset(data []byte) (m member, err error) {
	var r struct {
		Endpoint *struct {
			Host text  `json:"host"`
			Port whole `json:"port"`
		} `json:"serviceEndpoint"`
		Status text `json:"status"`
	}
	if m.payload, err = object(data, &r); err != nil {
		return m, err
	}
	if r.Endpoint == nil {
		return m, errors.New("no serviceEndpoint")
	}
	m.host, m.port = string(r.Endpoint.Host), r.Endpoint.Port
	m.disabled = r.Status != "" && !strings.EqualFold(string(r.Status), "ALIVE")
	return m, nil
}

func readNerve(data []byte) (m member, err error) {
	var r struct {
		Host text  `json:"host"`
		Port whole `json:"port"`
		Name text  `json:"name"`
	}
	m.payload, err = object(data, &r)
	m.id, m.host, m.port = string(r.Name), string(r.Host), r.Port
	return m, err
}

// object reads a JSON object, and returns it.
func object(data []byte, into any) (all json.RawMessage, err error) {
	if err = unmarshal(data, &all); err == nil && all[0] != '{' {
		err = errors.New("not a JSON object")
	}
	return all, cmp.Or(err, unmarshal(data, into))
}

func readHostPort(data []byte) (m member, err error) {
	host, port, err := net.SplitHostPort(strings.TrimSpace(string(data)))
	if err != nil {
		return m, errors.New("not host:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return m, fmt.Errorf("invalid port %q", port)
	}
	return member{host: host, port: whole(n)}, nil
}

// decodeMember reads the instance of a node with data in another format.
func decodeMember[T any](f Format, name, path string, data []byte, stat *zk.Stat) (*Instance[T], error) {
	m, err := formats[f].read(data)
	i := &Instance[T]{path: path, czxid: stat.Czxid, Name: intern(name), Address: m.host, Type: Permanent, Disabled: m.disabled}
	if err == nil {
		i.Port, err = m.port.port()
	}
	if err == nil && (i.Port == 0 || m.host == "" || strings.ContainsAny(m.host, "/ \t\r\n")) {
		err = fmt.Errorf("invalid host %q or port %d", m.host, m.port)
	}
	if err == nil && m.payload != nil {
		err = unmarshal(m.payload, &i.Payload)
	}
	if err != nil {
		return nil, fmt.Errorf("%w in the format %v: %w", errUnreadable, f, err)
	}
	if _, i.ID = framework.Split(path); m.id != "" {
		i.ID = m.id
	}
	if stat.EphemeralOwner != 0 {
		i.Type = Dynamic
	}
	return i, nil
}
