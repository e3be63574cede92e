package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/modeled"
)

// account is the model. Java has one of the same fields.
type account struct {
	Owner   string         `json:"owner"`
	Balance int64          `json:"balance"`
	Rate    float64        `json:"rate"`
	Key     []byte         `json:"key"`
	Tags    []string       `json:"tags"`
	Limits  map[string]int `json:"limits"`
	Note    *string        `json:"note"`
}

func newAccount(owner string, balance int64) account {
	return account{owner, balance, 2, []byte{1, 2, 255}, []string{"<a href=\"x\">&'\u2028\x01/é😀"}, map[string]int{"day": 100}, nil}
}

// accountLine is an account as Modeled.java prints it.
func accountLine(t *testing.T, name string, a account, version int32) string {
	t.Helper()
	data := testbed.Must(modeled.JSON[account]{}.Encode(a))
	text := strings.Replace(string(data), `"rate":2,`, `"rate":2.0,`, 1) // Jackson's number
	return fmt.Sprintf("%s|%s|%d", name, strings.ReplaceAll(text, `\u2028`, "\u2028"), version)
}

// javaModeled has Java's ModeledFramework and package modeled use the same nodes: each reads what
// the other writes, also compressed, no addition is lost, and both caches follow.
func javaModeled(t *testing.T, s stage) {
	const rounds = 50
	c, ctx := s.begin(t)
	base := c.path + "-accounts"
	accounts := testbed.Must(modeled.New[account](c.client, base))
	zipped, err := modeled.New[account](c.client, base+"-zipped", modeled.WithCodec(modeled.Compressed(modeled.JSON[account]{})))
	require.NoError(t, err)
	require.NoError(t, accounts.Create(ctx, "both", newAccount("Both", 0)))
	require.NoError(t, zipped.Create(ctx, "go", newAccount("Go", 30)))
	view := testbed.Must(accounts.View(ctx))
	defer view.Close()

	p := s.javaProgram(t, "Modeled", base, fmt.Sprint(rounds))
	var read account
	require.NoError(t, json.Unmarshal([]byte(p.hears(t, ctx, "zipped")), &read))
	require.Equal(t, newAccount("Go", 30), read)
	java, _, err := zipped.Get(ctx, "java")
	require.NoError(t, err)
	require.Equal(t, newAccount("Java", 20), java)
	for range rounds {
		testbed.Must(accounts.Update(ctx, "both", func(a account) (account, error) { a.Balance++; return a, nil }))
	}
	p.hears(t, ctx, "added")
	testbed.CatchUp(t, c.client)
	both, stat, err := accounts.Get(ctx, "both")
	require.NoError(t, err)
	require.Equal(t, newAccount("Both", 2*rounds), both)
	java, javaStat, err := accounts.Get(ctx, "java")
	require.NoError(t, err)
	require.Equal(t, newAccount("Java", 10), java)

	testbed.Must(accounts.Set(ctx, "go", newAccount("Go", 1)))
	ours, theirs := accountLine(t, "go", newAccount("Go", 1), 0), accountLine(t, "java", java, javaStat.Version)
	shared := accountLine(t, "both", both, stat.Version)
	p.hearsAll(t, ctx, ours, theirs, shared)
	requireView := func(want map[string]account) {
		require.NoError(t, view.Sync(ctx))
		list := testbed.Must(accounts.List(ctx))
		got := make(map[string]account)
		for entry := range view.All() {
			require.NoError(t, entry.Err)
			got[entry.Name] = entry.Value
		}
		require.Equal(t, want, got)
		require.Len(t, list, len(want))
		for _, entry := range list {
			require.Equal(t, want[entry.Name], entry.Value)
		}
	}
	requireView(map[string]account{"go": newAccount("Go", 1), "java": java, "both": both})

	// The stat of one side's write is what the other side's conditional write needs.
	_, err = accounts.Set(ctx, "java", java, framework.IfVersion(javaStat.Version+1))
	require.ErrorIs(t, err, zk.ErrBadVersion)
	java.Balance = 11
	javaStat = testbed.Must(accounts.Set(ctx, "java", java, framework.IfVersion(javaStat.Version)))
	p.hearsAll(t, ctx, ours, accountLine(t, "java", java, javaStat.Version), shared)

	require.NoError(t, accounts.Delete(ctx, "go"))
	c.create(t, ctx, base+"-delete")
	p.hearsAll(t, ctx, shared)
	testbed.CatchUp(t, c.client)
	requireView(map[string]account{"both": both})
	c.create(t, ctx, base+"-over")
	p.hears(t, ctx, "done")
}
