package zktest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// The quota of /a/b is in two nodes below /zookeeper/quota/a/b, which clients make: one has the
// limits, and in the other the server keeps the numbers of nodes and bytes.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsNode = "/zookeeper_limits"
	statsNode  = "/zookeeper_stats"
)

// WithEnforcedQuotas makes the server refuse a request that exceeds a hard quota with "quota exceeded" (-125),
// as ZooKeeper 3.7 and newer do with enforceQuota=true. By default quotas are counted, and nothing is refused.
// Soft quotas never refuse a request.
func WithEnforcedQuotas() Option {
	return func(c *config) error {
		c.quotas = true
		return nil
	}
}

// quota is the contents of a limits or stats node, such as "count=3,bytes=-1;countHardLimit=5".
type quota map[string]int64

// parseQuota fails where the real server does: anything may be a name, but each needs a number.
func parseQuota(text string) (quota, bool) {
	q := quota{}
	separator := func(r rune) bool { return r == ',' || r == ';' }
	if text != "" && separator(rune(text[0])) {
		return nil, false
	}
	for _, pair := range strings.FieldsFunc(text, separator) {
		parts := strings.Split(pair, "=")
		if len(parts) < 2 {
			return nil, false
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return nil, false
		}
		q[parts[0]] = n
	}
	return q, true
}

// get is -1, which is no limit, for what is not there.
func (q quota) get(name string) int64 {
	if n, found := q[name]; found {
		return n
	}
	return -1
}

func quotaText(count, bytes int64) []byte { return fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes) }

// quotaOf is the nearest node at or above path that has limits, or "" if there is none. The
// root never has.
func (t *tree) quotaOf(path string) string {
	if root := t.nodes[quotaRoot]; root == nil || len(root.children) == 0 {
		return ""
	}
	for path != "/" {
		if t.nodes[quotaRoot+path+limitsNode] != nil {
			return path
		}
		path, _ = split(path)
	}
	return ""
}

// checkQuota reports whether a change of so many nodes and bytes at path keeps within a hard
// quota. A real server decides by the numbers of before the transaction, so those of a multi
// may exceed it together.
func (x *txn) checkQuota(path string, nodes, bytes int64) proto.Code {
	if !x.tree.cfg.quotas {
		return proto.OK
	}
	limited := x.tree.quotaOf(path)
	if limited == "" {
		return proto.OK
	}
	limits := x.tree.nodes[quotaRoot+limited+limitsNode]
	stats := x.tree.nodes[quotaRoot+limited+statsNode]
	if limits.stat.Czxid == x.zxid {
		return proto.OK
	}
	limit, valid := parseQuota(string(limits.data))
	if !valid || limits.data == nil {
		return proto.MarshallingError
	}
	if stats == nil || stats.stat.Czxid == x.zxid {
		return proto.OK
	}
	now := string(stats.data)
	if before, found := x.statsBefore[stats]; found {
		now = before
	}
	used, valid := parseQuota(now)
	if !valid {
		return proto.MarshallingError
	}
	exceeds := func(name, hard string, by int64) bool {
		return by != 0 && limit.get(hard) > -1 && used.get(name)+by > limit.get(hard)
	}
	if exceeds("count", "countHardLimit", nodes) || exceeds("bytes", "byteHardLimit", bytes) {
		return proto.QuotaExceeded
	}
	return proto.OK
}

// count keeps the numbers of the quota that path is under. There is no event: the stats node's own
// stat does not change.
func (x *txn) count(path string, nodes, bytes int64) {
	limited := x.tree.quotaOf(path)
	if limited == "" {
		return
	}
	stats := x.tree.nodes[quotaRoot+limited+statsNode]
	if stats == nil {
		return
	}
	used, valid := parseQuota(string(stats.data))
	if !valid {
		return
	}
	if _, found := x.statsBefore[stats]; !found {
		if x.statsBefore == nil {
			x.statsBefore = make(map[*node]string)
		}
		x.statsBefore[stats] = string(stats.data)
	}
	x.save(stats)
	stats.data = quotaText(used.get("count")+nodes, used.get("bytes")+bytes)
}

// countAnew sets the numbers in a stats node that was just made.
func (x *txn) countAnew(path string, n *node) {
	limited, found := strings.CutPrefix(path, quotaRoot)
	if !found || !strings.HasSuffix(limited, statsNode) {
		return
	}
	limited = strings.TrimSuffix(limited, statsNode)
	if limited == "" {
		limited = "/"
	}
	var nodes, bytes int64
	for other, at := range x.tree.nodes {
		if other == limited || below(other, limited) {
			nodes, bytes = nodes+1, bytes+int64(len(at.data))
		}
	}
	n.data = quotaText(nodes, bytes)
}
