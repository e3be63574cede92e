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
	dubboNothing   = "0" // the revision of an instance that offers nothing
)

// The status of an instance in the metadata of Spring Cloud, and its value for one in service.
const (
	springStatus = "instance_status"
	springUp     = "UP"
)

// metadataOf returns the metadata of a payload of Spring Cloud or Dubbo, or nil. It returns an
// error if the class cannot read the payload.
func metadataOf(class string, payload json.RawMessage) (map[string]string, error) {
	if profiles[class] == "" {
		return nil, nil
	}
	var p *Metadata
	err := unmarshalPayload(payload, &p)
	if err == nil && p == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, fmt.Errorf("the class %s cannot read the payload: %w", class, err)
	}
	return p.Metadata, nil
}

// outOfService reports whether the metadata have a status with which Spring Cloud's
// ZookeeperServiceInstanceListSupplier leaves the instance out, or the revision of an instance of
// Dubbo that offers nothing.
func outOfService(class string, metadata map[string]string) bool {
	status := metadata[springStatus]
	switch class {
	case springClass:
		return strings.TrimSpace(status) != "" && !strings.EqualFold(status, springUp)
	case dubboClass:
		return metadata[dubboRevision] == dubboNothing
	}
	return false
}

// profiles are the classes of instances that cannot share a service with others.
var profiles = map[string]string{springClass: "Spring Cloud", dubboClass: "Dubbo"}

// profileOf returns the profile of a class.
func profileOf(class string) string { return cmp.Or(profiles[class], "plain") }

// ErrOtherProfile is returned if a service has an instance of another profile (Spring Cloud, Dubbo
// or plain). Java clients cast all payloads to the class of their profile. A payload of another
// class makes a client find no instance, and prevents the start of a Dubbo consumer.
var ErrOtherProfile = errors.New("service has instances of another profile")

// Spring returns an instance in the form of Spring Cloud ZooKeeper, with the address host, the port
// and the metadata. Spring's default base is "/services". An IPv6 host is enclosed in brackets,
// which Spring requires.
//
// Its metadata have the status "UP" ("instance_status") unless metadata have another one. Neither
// Spring's load balancer nor [Watch.Pick] chooses an instance with another status. Spring ignores
// the field "enabled".
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

// Dubbo returns an instance in the form of an application of Dubbo 3. Dubbo's default base is
// "/services". Package discovery/dubbo registers a gRPC service with all nodes that consumers need.
//
// The metadata describe the application's services: "dubbo.endpoints", "dubbo.metadata.revision"
// and "dubbo.metadata.storage-type". Consumers ignore an instance without a revision, or with
// revision "0". A revision requires the storage type, or a consumer in Java stalls for 18 s at each
// change of its list. Dubbo ignores the field "enabled". Weights and tags are in the metadata of
// each service.
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

// ErrNested is returned if the node of a service would lie among the instances of another service:
// "pay/v2" below "pay". Java clients of "pay" read it as an instance, and fail.
var ErrNested = errors.New("service name lies above or below another service")

// checkNeighbors refuses an instance beside which Java's callers of this service, or of one above
// it, would fail. It waits for a server, and reads instances until it has found one. The client may
// lack the permission to read a service of plain instances.
func (d *Discovery[T]) checkNeighbors(ctx context.Context, i Instance[T], own string) error {
	dir, _ := framework.Split(own)
	return d.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		first, nested, err := d.firstInstance(ctx, in, i, dir, own)
		switch {
		case err != nil:
			return nil, err
		case first == nil && nested != "":
			return nil, fmt.Errorf("%w: %s", ErrNested, nested)
		case first != nil && profileOf(first.PayloadClass) != profileOf(i.PayloadClass):
			return nil, fmt.Errorf("%w: instance %s is %s, the new instance is %s", ErrOtherProfile, first.ID, profileOf(first.PayloadClass), profileOf(i.PayloadClass))
		}
		below := strings.TrimSuffix(d.base, "/") + "/"
		for above, _ := framework.Split(dir); len(above) > len(below) && strings.HasPrefix(above, below); above, _ = framework.Split(above) {
			if first, _, err := d.firstInstance(ctx, in, i, above, ""); err != nil {
				return nil, err
			} else if first != nil {
				return nil, fmt.Errorf("%w: %s", ErrNested, first.path)
			}
		}
		return nil, nil
	})
}

// firstInstance returns the first instance among the children of dir except own. nested is the path
// of a child before it that has no data but children, so it is the node of another service.
func (d *Discovery[T]) firstInstance(ctx context.Context, in *framework.Client, i Instance[T], dir, own string) (first *Instance[json.RawMessage], nested string, err error) {
	unknown := func(err error) bool { return errors.Is(err, zk.ErrNoAuth) && profiles[i.PayloadClass] == "" }
	nodes, err := children(ctx, in, dir)
	if unknown(err) {
		return nil, "", nil
	}
	for _, node := range nodes {
		path := framework.Join(dir, node)
		if path == own {
			continue // the node will be replaced
		}
		data, stat, err := get(ctx, in, path)
		switch {
		case unknown(err), errors.Is(err, zk.ErrNoNode), errors.Is(err, framework.ErrNotCompressed):
			continue
		case err != nil:
			return nil, "", err
		case len(data) == 0 && stat.NumChildren > 0:
			nested = path
			continue
		}
		// An unreadable instance is skipped.
		if first, err := decode[json.RawMessage](Curator, i.Name, path, data, stat); err == nil && first != nil {
			return first, nested, nil
		}
	}
	return nil, nested, err
}

// harms returns why Java's callers of the service fail or stall, if it has such an instance. It
// returns nil if they do not.
func (i *Instance[T]) harms(payload json.RawMessage) error {
	metadata, err := metadataOf(i.PayloadClass, payload)
	if err != nil {
		return err
	}
	switch i.PayloadClass {
	case springClass:
		switch {
		case i.Port == 0 && i.SSLPort == 0:
			return errors.New("a Spring instance requires a port")
		case i.Address != "" && !javaHost(i.Address):
			return fmt.Errorf("java.net.URI finds no host in a URI with the address %q of a Spring instance", i.Address)
		}
		if uri := i.uri(i.Address, nil); javaURI(uri) != nil {
			return fmt.Errorf("java.net.URI rejects the URI %q of a Spring instance: %w", uri, javaURI(uri))
		}
	case dubboClass:
		if i.Port == 0 {
			return errors.New("a Dubbo instance requires a port")
		}
		if revision := metadata[dubboRevision]; revision != "" && revision != dubboNothing && metadata[dubboStorage] == "" {
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
