package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/uuid"
)

// Metadata is the payload of the services of Spring Cloud and of Dubbo.
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

// The status of an instance in the metadata of Spring Cloud, and that of one that is to be called.
const (
	springStatus = "instance_status"
	springUp     = "UP"
)

// outOfService reports whether a payload is of Spring Cloud and has a status with which ZookeeperServiceInstanceListSupplier leaves it out.
func outOfService(class string, payload json.RawMessage) bool {
	var p Metadata
	if class == springClass {
		_ = json.Unmarshal(payload, &p) // what cannot be read has no status
	}
	status := p.Metadata[springStatus]
	return strings.TrimSpace(status) != "" && !strings.EqualFold(status, springUp)
}

// otherProfile is the class of instances that must not be in one service with those of a class.
var otherProfile = map[string]string{springClass: dubboClass, dubboClass: springClass}

// ErrOtherProfile means that a service has instances of another profile: neither a Spring Cloud nor a Dubbo
// application can read a service that has instances of both.
var ErrOtherProfile = errors.New("service has instances of another profile")

// Spring makes an instance as Spring Cloud ZooKeeper registers it. Its default base is "/services". The status in the metadata,
// "instance_status", is "UP" unless metadata has it: neither Spring nor [Watch.Pick] chooses an instance with another status.
func Spring(name, host string, port int, metadata map[string]string) Instance[Metadata] {
	all := map[string]string{springStatus: springUp}
	maps.Copy(all, metadata)
	return Instance[Metadata]{
		Name: name, ID: uuid.New(), Address: host, Port: port,
		Payload: Metadata{ID: name, Name: name, Metadata: all}, PayloadClass: springClass,
		URISpec: &URISpec{Parts: []URIPart{{"scheme", true}, {"://", false}, {"address", true}, {":", false}, {"port", true}}},
	}
}

// Dubbo makes an instance as Dubbo 3 registers an application. Its default base is "/services". Consumers find in metadata what
// they need, such as "dubbo.endpoints" and "dubbo.metadata.revision".
func Dubbo(name, host string, port int, metadata map[string]string) Instance[Metadata] {
	id := net.JoinHostPort(host, strconv.Itoa(port))
	all := map[string]string{}
	maps.Copy(all, metadata)
	return Instance[Metadata]{
		Name: name, ID: id, Address: host, Port: port,
		Payload: Metadata{ID: id, Name: name, Metadata: all}, PayloadClass: dubboClass,
	}
}

// checkProfile refuses an instance of a profile that the other instances of the service do not have.
func (d *Discovery[T]) checkProfile(ctx context.Context, i Instance[T]) error {
	other := otherProfile[i.PayloadClass]
	if other == "" {
		return nil
	}
	w, err := d.Watch(ctx, i.Name) // it waits for a server as Register does; Lookup does not
	if err != nil {
		return err
	}
	defer w.Close()
	for _, there := range w.Instances() {
		if there.PayloadClass == other {
			return fmt.Errorf("%w: %s has the class %s", ErrOtherProfile, there.ID, other)
		}
	}
	return nil
}
