package discovery_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// DiscoveryClient.getInstances("pay") of Spring fails while a node below /services/pay is none of
// its instances. So do the callers of x-discovery and Dubbo.
func TestRegister_RefusesServicesAboveAndBelowEachOther(t *testing.T) {
	kinds := map[string]func(name string, port int) discovery.Instance[discovery.Metadata]{
		"Spring": func(name string, port int) discovery.Instance[discovery.Metadata] {
			return discovery.Spring(name, "127.0.0.1", port, nil)
		},
		"Dubbo": func(name string, port int) discovery.Instance[discovery.Metadata] {
			return discovery.Dubbo(name, "127.0.0.1", port, nil)
		},
		"plain": func(name string, port int) discovery.Instance[discovery.Metadata] {
			return discovery.Instance[discovery.Metadata]{Name: name, ID: "1", Address: "h", Port: port}
		},
	}
	for kind, instance := range kinds {
		for name, c := range map[string]struct {
			base, first, second string
			refused             bool
		}{
			"below":           {"/services", "pay", "pay/v2", true},
			"far below":       {"/services", "pay", "pay/eu/v2", true},
			"below the root":  {"/", "pay", "pay/v2", true},
			"above":           {"/services", "pay/v2", "pay", true},
			"far above":       {"/services", "pay/eu/v2", "pay", true},
			"beside":          {"/services", "pay/v2", "pay/v3", false},
			"beside, by name": {"/services", "pay", "payment/v2", false},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				d := testbed.Must(discovery.New[discovery.Metadata](newClient(t, zktest.NewServer(t)), c.base))
				ctx := testbed.Context(t)
				first := register(t, d, instance(c.first, 1))
				reg, err := d.Register(ctx, instance(c.second, 2))
				if !c.refused {
					require.NoError(t, err)
					require.NoError(t, reg.Close())
					return
				}
				require.ErrorIs(t, err, discovery.ErrNested)
				require.ErrorContains(t, err, framework.Join(c.base, "pay"), "it names the neighbor")
				require.ErrorIs(t, testbed.Err(d.Write(ctx, instance(c.second, 2))), discovery.ErrNested)
				require.NoError(t, first.Close())
				if name == "far above" {
					return // an empty node is left, and the servers delete it
				}
				reg, err = d.Register(ctx, instance(c.second, 2))
				require.NoError(t, err, "the other service has no instance any more")
				require.NoError(t, reg.Close())
			})
		}
	}
}

// Java casts every payload of a service to one class.
func TestUpdate_OfAnInstanceBuiltAnew(t *testing.T) {
	ctx := testbed.Context(t)
	d := newDiscovery[discovery.Metadata](t, newClient(t, zktest.NewServer(t)))
	reg := register(t, d, discovery.Spring("pay", "127.0.0.1", 1, nil))
	i := reg.Instance()
	anew := discovery.Instance[discovery.Metadata]{Name: "pay", Address: "127.0.0.1", Port: 2, Payload: i.Payload}
	require.NoError(t, reg.Update(ctx, anew))
	require.Equal(t, i.PayloadClass, reg.Instance().PayloadClass)
	list := lookup(t, d, "pay")
	require.Equal(t, i.PayloadClass, list[0].PayloadClass)
	require.Equal(t, 2, list[0].Port)
	anew.PayloadClass = "java.util.LinkedHashMap"
	require.NoError(t, reg.Update(ctx, anew), "there is no other instance")
	anew.PayloadClass = ""
	require.NoError(t, reg.Update(ctx, anew))
	anew.PayloadClass = i.PayloadClass
	require.NoError(t, reg.Update(ctx, anew))
	register(t, d, discovery.Spring("pay", "127.0.0.1", 3, nil))
	anew.PayloadClass = "java.util.LinkedHashMap"
	require.ErrorIs(t, reg.Update(ctx, anew), discovery.ErrOtherProfile)
	require.Equal(t, i.PayloadClass, reg.Instance().PayloadClass)
}

func TestRegister_RefusesAPayloadThatItsClassCannotRead(t *testing.T) {
	d := newDiscovery[any](t, newClient(t, zktest.NewServer(t)))
	for _, made := range []discovery.Instance[discovery.Metadata]{discovery.Spring("pay", "h", 1, nil), discovery.Dubbo("pay", "h", 1, nil)} {
		for name, payload := range map[string]any{
			"text": "x", "list": []any{1}, "number": 3, "null": nil,
			"metadata is text": map[string]any{"id": "a", "name": "b", "metadata": "x"},
			"nested metadata":  map[string]any{"id": "a", "name": "b", "metadata": map[string]any{"a": map[string]any{"b": 1}}},
		} {
			i := discovery.Instance[any]{Name: "pay", Address: "h", Port: 2, Payload: payload, PayloadClass: made.PayloadClass}
			require.ErrorIs(t, testbed.Err(d.Register(testbed.Context(t), i)), framework.ErrBadArgument, name)
			i.Payload = map[string]any{"id": "a", "name": "b", "metadata": map[string]any{"a": 1, "b": true, "c": nil}}
			reg, err := d.Register(testbed.Context(t), i)
			require.NoError(t, err, "Java converts these")
			i.Payload = payload
			require.ErrorIs(t, reg.Update(testbed.Context(t), i), framework.ErrBadArgument, name)
			require.NoError(t, reg.Close())
		}
	}
}
