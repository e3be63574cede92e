package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/uuid"
)

// Metadata is the payload of instances of Spring Cloud and of Dubbo.
type Metadata struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
}

// The classes of these payloads in Java.
const (
	springClass = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"
	dubboClass  = "org.apache.dubbo.registry.zookeeper.ZookeeperInstance"
)

// The metadata of Dubbo that this package reads.
const (
	dubboEndpoints = "dubbo.endpoints"
	dubboRevision  = "dubbo.metadata.revision"
	dubboStorage   = "dubbo.metadata.storage-type"
)

// The status of an instance in the metadata of Spring Cloud, and its value for one in service.
const (
	springStatus = "instance_status"
	springUp     = "UP"
)

// metadataOf returns the metadata of a payload of Spring Cloud or Dubbo, or nil.
func metadataOf(class string, payload json.RawMessage) map[string]string {
	var p Metadata
	if profiles[class] != "" {
		_ = unmarshalPayload(payload, &p) // unreadable payloads have none
	}
	return p.Metadata
}

// outOfService reports whether the metadata are of Spring Cloud and have a status with which
// ZookeeperServiceInstanceListSupplier leaves the instance out.
func outOfService(class string, metadata map[string]string) bool {
	status := metadata[springStatus]
	return class == springClass && strings.TrimSpace(status) != "" && !strings.EqualFold(status, springUp)
}

// profiles are the classes of instances that cannot share a service with others.
var profiles = map[string]string{springClass: "Spring Cloud", dubboClass: "Dubbo"}

// profileOf returns the profile of a class.
func profileOf(class string) string { return cmp.Or(profiles[class], "plain") }

// ErrOtherProfile is returned if a service has an instance of another profile (Spring Cloud, Dubbo
// or plain). Java clients cast all payloads to the class of their profile. A payload of another
// class makes a client find no instance, and prevents the start of a Dubbo consumer.
var ErrOtherProfile = errors.New("service has instances of another profile")

// Spring returns an instance as Spring Cloud ZooKeeper registers it. Spring's default base is
// "/services". An IPv6 host is enclosed in brackets, as Spring requires.
//
// Spring's load balancer caches its list for 35 s by default, so [Registration.Drain] must last
// longer.
func Spring(name, host string, port int, metadata map[string]string) Instance[Metadata] {
	all := map[string]string{springStatus: springUp}
	maps.Copy(all, metadata)
	// A zone is valid only on this machine.
	if strings.Contains(host, ":") && !strings.Contains(host, "%") {
		host = "[" + unbracketed(host) + "]"
	}
	return Instance[Metadata]{
		Name: name, ID: uuid.New(), Address: host, Port: port,
		Payload: Metadata{ID: name, Name: name, Metadata: all}, PayloadClass: springClass,
		URISpec: &URISpec{Parts: []URIPart{{"scheme", true}, {"://", false}, {"address", true}, {":", false}, {"port", true}}},
	}
}

// Dubbo returns an instance as Dubbo 3 registers an application. Dubbo's default base is
// "/services".
//
// The package comment describes the metadata. Package discovery/dubbo registers a gRPC service with
// all nodes that consumers need.
func Dubbo(name, host string, port int, metadata map[string]string) Instance[Metadata] {
	host = unbracketed(host)
	id := host + ":" + strconv.Itoa(port) // without brackets, as Dubbo writes it
	all := map[string]string{}
	maps.Copy(all, metadata)
	return Instance[Metadata]{
		Name: name, ID: id, Address: host, Port: port,
		Payload: Metadata{ID: id, Name: name, Metadata: all}, PayloadClass: dubboClass,
	}
}

// checkProfile refuses an instance of a profile that another instance of the service does not have.
// It waits for a server, and reads instances until it has found one. The client may lack the
// permission to read a service of plain instances.
func (d *Discovery[T]) checkProfile(ctx context.Context, i Instance[T], own string) error {
	dir, _ := framework.Split(own)
	return d.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		nodes, err := children(ctx, in, dir)
		if errors.Is(err, zk.ErrNoAuth) && profiles[i.PayloadClass] == "" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			path := framework.Join(dir, node)
			if path == own {
				continue // the node will be replaced
			}
			there, err := read[json.RawMessage](ctx, in, i.Name, path)
			switch {
			case errors.Is(err, errUnreadable), errors.Is(err, zk.ErrNoAuth) && profiles[i.PayloadClass] == "":
			case err != nil:
				return nil, err
			case there == nil:
			case profileOf(there.PayloadClass) != profileOf(i.PayloadClass):
				return nil, fmt.Errorf("%w: instance %s is %s, the new instance is %s", ErrOtherProfile, there.ID, profileOf(there.PayloadClass), profileOf(i.PayloadClass))
			default:
				return nil, nil
			}
		}
		return nil, nil
	})
}

// harms returns why Java's callers of the service fail or stall, if it has such an instance. It
// returns nil if they do not.
func (i *Instance[T]) harms(metadata map[string]string) error {
	switch i.PayloadClass {
	case springClass:
		if i.Port == 0 && i.SSLPort == 0 {
			return errors.New("a Spring instance requires a port")
		}
		if uri := i.uri(i.Address, nil); javaURI(uri) != nil {
			return fmt.Errorf("java.net.URI rejects the URI %q of a Spring instance: %w", uri, javaURI(uri))
		}
	case dubboClass:
		if i.Port == 0 {
			return errors.New("a Dubbo instance requires a port")
		}
		if revision := metadata[dubboRevision]; revision != "" && revision != "0" && metadata[dubboStorage] == "" {
			return fmt.Errorf("a Dubbo instance with %s requires %s", dubboRevision, dubboStorage)
		}
	}
	return nil
}

// warn logs that Java's callers fail on an instance that was read, or on the service because
// another instance has another profile.
func (d *Discovery[T]) warn(i, other *Instance[T]) {
	err := i.harm
	if err == nil && other != nil && profileOf(i.PayloadClass) != profileOf(other.PayloadClass) {
		err = fmt.Errorf("%w: the instance is %s, but %s is %s", ErrOtherProfile, profileOf(i.PayloadClass), other.ID, profileOf(other.PayloadClass))
	}
	if err != nil {
		engine.Of(d.client).Logger().Warn("Java clients of the service fail because of an instance", slog.String("path", i.path), slog.Any("error", err))
	}
}
