package ensemble

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ory/dockertest/v3/docker"
)

const (
	defaultImage = "zookeeper:3.9"
	builtImage   = "curator-zookeeper:debian" // built by scripts/zookeeper-image.sh
	clientPort   = "2181/tcp"

	// ownerLabel labels containers and networks with their process, so that the remains of a killed
	// process can be found.
	ownerLabel = "io.gocurator.owner"
)

// image finds an image, and pulls it if need be.
func (e *Ensemble) image(ctx context.Context) (string, error) {
	wanted := []string{os.Getenv("ZOOKEEPER_IMAGE")}
	if wanted[0] == "" {
		wanted = []string{defaultImage, builtImage}
	}
	for _, name := range wanted {
		if _, err := e.docker.InspectImage(name); err == nil {
			return name, nil
		}
	}
	repository, tag := splitImage(wanted[0])
	err := e.docker.PullImage(docker.PullImageOptions{Repository: repository, Tag: tag, Context: ctx}, docker.AuthConfiguration{})
	if err != nil {
		return "", fmt.Errorf("%w (scripts/zookeeper-image.sh builds one): pull %s: %w", ErrNoImage, wanted[0], err)
	}
	return wanted[0], nil
}

// splitImage splits an image's name for a pull. A colon before the last slash precedes a registry's
// port. Without a tag the engine would pull all tags. A digest stays with the repository, from
// which the client takes it.
func splitImage(name string) (repository, tag string) {
	colon := strings.LastIndexByte(name, ':')
	switch {
	case strings.Contains(name, "@"):
		return name, ""
	case colon <= strings.LastIndexByte(name, '/'):
		return name, "latest"
	}
	return name[:colon], name[colon+1:]
}

func (e *Ensemble) network(ctx context.Context, name string) (*docker.Network, error) {
	return e.docker.CreateNetwork(docker.CreateNetworkOptions{Name: name, Driver: "bridge", Labels: owner(), Context: ctx})
}

// create creates a container, which does not run yet, and its proxy.
func (e *Ensemble) create(ctx context.Context, image string, s *server, i int) error {
	env := append(e.cfg.environment(), "ZOO_MY_ID="+strconv.Itoa(i+1), "ZOO_SERVERS="+e.members())
	if len(e.cfg.extra) > 0 {
		env = append(env, "ZOO_CFG_EXTRA="+strings.Join(e.cfg.extra, " "))
	}
	if e.cfg.servers == 1 {
		env = append(env, "ZOO_STANDALONE_ENABLED=true")
	}
	container, err := e.docker.CreateContainer(docker.CreateContainerOptions{
		Name: s.host,
		Config: &docker.Config{
			Image:        image,
			Env:          env,
			Labels:       owner(),
			ExposedPorts: map[docker.Port]struct{}{clientPort: {}},
		},
		HostConfig: &docker.HostConfig{
			PortBindings: map[docker.Port][]docker.PortBinding{clientPort: {{HostIP: "127.0.0.1", HostPort: "0"}}},
		},
		NetworkingConfig: &docker.NetworkingConfig{
			EndpointsConfig: map[string]*docker.EndpointConfig{e.clients.Name: {NetworkID: e.clients.ID}},
		},
		Context: ctx,
	})
	if err != nil {
		return err
	}
	s.container = container.ID
	if err := e.copyFiles(ctx, s); err != nil {
		return err
	}
	if err := e.joinPeers(s); err != nil {
		return err
	}
	s.proxy, err = newProxy(func() (string, error) { return e.published(s) })
	return err
}

// copyFiles puts the files of the configuration into a server's container.
func (e *Ensemble) copyFiles(ctx context.Context, s *server) error {
	if len(e.cfg.files) == 0 {
		return nil
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for path, content := range e.cfg.files {
		header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(w, content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return e.docker.UploadToContainer(s.container, docker.UploadToContainerOptions{InputStream: &archive, Path: "/", Context: ctx})
}

// members is the ensemble's configuration: the same for all.
func (e *Ensemble) members() string {
	var list []string
	for i := range e.cfg.servers {
		list = append(list, fmt.Sprintf("server.%d=%s-%d-peer:2888:3888;2181", i+1, e.name, i+1))
	}
	return strings.Join(list, " ")
}

func (e *Ensemble) joinPeers(s *server) error {
	return e.docker.ConnectNetwork(e.peers.ID, docker.NetworkConnectionOptions{
		Container:      s.container,
		EndpointConfig: &docker.EndpointConfig{Aliases: []string{s.host + "-peer"}},
	})
}

// published is where the server's port is on this machine, which changes with each start.
func (e *Ensemble) published(s *server) (string, error) {
	c, err := e.docker.InspectContainer(s.container)
	if err != nil {
		return "", err
	}
	bindings := c.NetworkSettings.Ports[clientPort]
	if len(bindings) == 0 {
		return "", fmt.Errorf("container %s is not running", s.host)
	}
	return net.JoinHostPort(bindings[0].HostIP, bindings[0].HostPort), nil
}

// running reports whether the server's process can run at all: it is started, and not paused.
func (e *Ensemble) running(s *server) (bool, error) {
	c, err := e.docker.InspectContainer(s.container)
	if err != nil {
		return false, err
	}
	return c.State.Running && !c.State.Paused, nil
}

// owner is this process.
func owner() map[string]string {
	host, _ := os.Hostname() // empty is a name too
	return map[string]string{ownerLabel: host + ":" + strconv.Itoa(os.Getpid())}
}

// abandoned reports whether the labelled process of this machine has ended.
func abandoned(labels map[string]string) bool {
	label, found := labels[ownerLabel]
	if !found {
		return false
	}
	host, pid, _ := strings.Cut(label, ":")
	here, _ := os.Hostname()
	id, err := strconv.Atoi(pid)
	return host == here && err == nil && ended(id)
}

// Sweep removes containers and networks left behind by exited processes of this machine, and by the
// processes pids, exited or not. [Start] also removes the former.
//
// Errors are
//   - [ErrNoDocker] if no Docker engine is running;
//   - otherwise the errors of the removals.
func Sweep(ctx context.Context, pids ...int) error {
	client, err := connect(ctx)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	return sweep(ctx, client, func(labels map[string]string) bool {
		return abandoned(labels) || slices.ContainsFunc(pids, func(pid int) bool {
			return labels[ownerLabel] == host+":"+strconv.Itoa(pid)
		})
	})
}

// sweep removes all containers and networks for whose labels gone returns true.
func sweep(ctx context.Context, client *docker.Client, gone func(labels map[string]string) bool) error {
	containers, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {ownerLabel}}, Context: ctx,
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers {
		if gone(c.Labels) {
			errs = append(errs, client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx}))
		}
	}
	networks, err := client.ListNetworks()
	errs = append(errs, err)
	for _, n := range networks {
		if gone(n.Labels) {
			errs = append(errs, client.RemoveNetwork(n.ID))
		}
	}
	return errors.Join(errs...)
}
