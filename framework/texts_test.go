package framework_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// oneLine fails the test if the text has several lines, or says something twice.
func oneLine(t *testing.T, text string) {
	t.Helper()
	require.NotContains(t, text, "\n")
	said := map[string]bool{}
	// the prefix of go-zookeeper's errors
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "zk: ", "zk "), ": ") {
		require.False(t, said[part], "%q is in it twice: %s", part, text)
		said[part] = true
	}
}

// reasons is a log that checks each text that it is given.
func reasons(t *testing.T) framework.Option {
	return logFunc(func(r slog.Record) {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "stack" {
				oneLine(t, a.Value.String())
			}
			return true
		})
	}).keep()
}

// signalled is a cause like signal.NotifyContext's.
type signalled struct{}

func (signalled) Error() string        { return "terminated signal received" }
func (signalled) Is(target error) bool { return target == context.Canceled }

// TestErrorsAndReasonsAreOneLine for each operation, with each fault, and each way to give up.
func TestErrorsAndReasonsAreOneLine(t *testing.T) {
	operations := map[string]func(ctx context.Context, c *framework.Client) error{
		"create": func(ctx context.Context, c *framework.Client) error {
			return testbed.Err(c.Create(ctx, "/a/b", nil, framework.Protected(), framework.ContainerParents()))
		},
		"get":    func(ctx context.Context, c *framework.Client) error { return testbed.Err(c.Get(ctx, "/a")) },
		"watch":  func(ctx context.Context, c *framework.Client) error { return testbed.Err(c.ChildrenW(ctx, "/a")) },
		"set":    func(ctx context.Context, c *framework.Client) error { return testbed.Err(c.Set(ctx, "/a", nil)) },
		"delete": func(ctx context.Context, c *framework.Client) error { return c.Delete(ctx, "/a") },
		"multi": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Multi(ctx, &zk.CheckVersionRequest{Path: "/a", Version: -1}, &zk.CreateRequest{Path: "/b"})
			return err
		},
		"sync":    func(ctx context.Context, c *framework.Client) error { return c.Sync(ctx) },
		"connect": func(ctx context.Context, c *framework.Client) error { return c.WaitConnected(ctx) },
		"persistent watch": func(ctx context.Context, c *framework.Client) error {
			return testbed.Err(c.AddWatch(ctx, "/a", framework.WatchRecursive, func(zk.Event) {}))
		},
		"follow": func(ctx context.Context, c *framework.Client) error {
			return c.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
				_, _, watch, err := in.GetW(ctx, "/a")
				if err != nil {
					return nil, err
				}
				return watch.Done(), nil
			})
		},
		"acquire": func(ctx context.Context, c *framework.Client) error {
			m, err := mutex.New(c, "/lock")
			if err == nil {
				_, err = m.Acquire(ctx)
			}
			return err
		},
	}
	on := func(fault zktest.Fault) func(s *zktest.Server, c *framework.Client) {
		return func(s *zktest.Server, _ *framework.Client) {
			for n := range 20 {
				s.Inject(fault, n, zktest.On(func(r zktest.Request) bool { return r.Op != "connect" && r.Op != "ping" }))
			}
		}
	}
	faults := map[string]func(s *zktest.Server, c *framework.Client){
		"none":           func(*zktest.Server, *framework.Client) {},
		"failed before":  on(zktest.FailBefore),
		"reply lost":     on(zktest.LoseReply),
		"expired before": on(zktest.ExpireBefore),
		"expired after":  on(zktest.ExpireAfter),
		"frozen":         func(s *zktest.Server, _ *framework.Client) { s.Freeze() },
		"paused":         func(s *zktest.Server, _ *framework.Client) { s.Pause() },
		"stopped":        func(s *zktest.Server, _ *framework.Client) { s.Stop() },
		"refuses credentials": func(s *zktest.Server, _ *framework.Client) {
			s.RefuseCredentials(true)
			s.CutConnections()
		},
		"slow handshakes": func(s *zktest.Server, _ *framework.Client) {
			s.Delay(time.Hour, zktest.OnOp("connect"))
			s.CutConnections()
		},
		"requests are not answered": func(s *zktest.Server, _ *framework.Client) {
			s.BlockReplies(zktest.On(func(r zktest.Request) bool { return r.Op != "connect" && r.Op != "ping" }))
		},
		"closed": func(_ *zktest.Server, c *framework.Client) { c.Close() },
	}
	after := func(d time.Duration, cause error) func(t *testing.T) context.Context {
		return func(t *testing.T) context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(d, func() { cancel(cause) })
			return ctx
		}
	}
	ways := map[string]func(t *testing.T) context.Context{
		"at the deadline": func(t *testing.T) context.Context { return testbed.Timeout(t, 30*time.Second) },
		"cancelled":       after(3*time.Second, nil),
		"with a signal":   after(20*time.Second, signalled{}),
		"with a cause":    after(20*time.Second, errors.New("the deployment is over")),
	}
	for fault, begin := range faults {
		for way, given := range ways {
			t.Run(fault+" "+way, func(t *testing.T) {
				for name, operation := range operations {
					testbed.Bubble(t, func(t *testing.T) {
						server, client := virtual(t, framework.WithRetryPolicy(retry.NTimes(2, time.Second)), framework.WithAuth("digest", []byte("a:b")),
							framework.WithSessionTimeout(4*time.Second), reasons(t))
						if name == "acquire" {
							held(t, client, "/lock")
						}
						begin(server, client)
						if err := operation(given(t), client); err != nil {
							oneLine(t, err.Error())
						}
						server.ClearFaults()
					})
				}
			})
		}
	}
}

// TestWhyNoServerGrantsASession says what took too long, and not that the caller's context has
// ended.
func TestWhyNoServerGrantsASession(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithInMemory())
		defer server.Delay(time.Hour, zktest.OnOp("connect"))()
		client := testbed.ClientOf(t, server, framework.WithSessionTimeout(8*time.Second))
		require.EqualError(t, client.WaitConnected(testbed.Timeout(t, time.Minute)),
			"connect /: context deadline exceeded: zk: could not connect to a server: "+server.Addr()+": no session was granted within 8s")
	})
	testbed.Bubble(t, func(t *testing.T) {
		client := testbed.NewClient(t, []string{"zk1"}, framework.WithSessionTimeout(8*time.Second),
			framework.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		require.EqualError(t, client.WaitConnected(testbed.Timeout(t, time.Minute)),
			"connect /: context deadline exceeded: zk: could not connect to a server: zk1:2181: no connection was accepted within 8s")
	})
}

// TestTLSToAPlainPortSaysSo: a server hangs up on a TLS handshake, or answers in plain text.
func TestTLSToAPlainPortSaysSo(t *testing.T) {
	why := func(t *testing.T, serve func(nc net.Conn)) string {
		listener := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
		var group sync.WaitGroup
		defer group.Wait()
		defer listener.Close()
		group.Go(func() {
			for {
				nc, err := listener.Accept()
				if err != nil {
					return
				}
				serve(nc)
				nc.Close()
			}
		})
		client := testbed.NewClient(t, []string{listener.Addr().String()}, framework.WithTLS(&tls.Config{InsecureSkipVerify: true}),
			framework.WithRetryPolicy(retry.Never()), framework.WithConnectionTimeout(time.Second))
		_, _, err := client.Get(t.Context(), "/")
		require.ErrorIs(t, err, zk.ErrNoServer)
		oneLine(t, err.Error())
		return err.Error()
	}
	t.Run("a ZooKeeper server", func(t *testing.T) {
		require.Contains(t, why(t, func(nc net.Conn) { _, _ = nc.Read(make([]byte, 1<<10)) }), "the server hung up, as on a port without TLS")
	})
	t.Run("another service", func(t *testing.T) {
		require.Contains(t, why(t, func(nc net.Conn) {
			_, _ = nc.Write(bytes.Repeat([]byte("220 hello\r\n"), 10))
			_, _ = nc.Read(make([]byte, 1<<10))
		}), "the server does not speak TLS on this port")
	})
}

// TestServersThatCannotBeHostsAreRefused with a reason, and without a password.
func TestServersThatCannotBeHostsAreRefused(t *testing.T) {
	for _, text := range []string{
		"zk1 zk2", "zk1 zk2:2181", "127.0.0.1 2181", "zk1;zk2", "zk1:2181;zk2:2181", "zk-{0,1,2}:2181", "zk1\tzk2:2181", "[zk1", "zk1]", "[zk1]",
		"[zk1]:2181", "[127.0.0.1]", "fe80::1%", "zk1:2181:2181", "zk://zk1:2181", "zookeeper://zk1", "user@zk1", "zk1:", "%lo",
	} {
		_, _, err := framework.ParseConnectString(text)
		require.ErrorIs(t, err, framework.ErrBadArgument, text)
		oneLine(t, err.Error())
		require.ErrorIs(t, testbed.Err(framework.New([]string{text})), framework.ErrBadArgument, text)
	}
	for text, says := range map[string]string{
		"zk://user:secret@zk1:2181,zk2:2181/app": `scheme "zk"`,
		"user:secret@zk1:2181/app":               "credentials",
		"zk1,user:secret@zk2":                    "credentials",
	} {
		_, _, err := framework.ParseConnectString(text)
		require.ErrorIs(t, err, framework.ErrBadArgument, text)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "namespace")
	}
	for text, want := range map[string]string{
		"fe80::1%lo": "[fe80::1%lo]:2181", "[fe80::1%lo]": "[fe80::1%lo]:2181", "[fe80::1%lo]:2182": "[fe80::1%lo]:2182",
		"::1": "[::1]:2181", "zk_1.example-a.org": "zk_1.example-a.org:2181", "zoökeeper": "zoökeeper:2181",
	} {
		servers, _, err := framework.ParseConnectString(text)
		require.NoError(t, err, text)
		require.Equal(t, []string{want}, servers)
	}
	servers, chroot, err := framework.ParseConnectString("zk1/a@b")
	require.NoError(t, err)
	require.Equal(t, "zk1:2181 a@b", servers[0]+" "+chroot)
}
