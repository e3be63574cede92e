package tree

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// The quota of /a/b is in two nodes below /zookeeper/quota/a/b, which clients create. One has the
// limits, and in the other the server updates the numbers of nodes and bytes.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsNode = "/zookeeper_limits"
	statsNode  = "/zookeeper_stats"
)

// quota is the contents of a limits or stats node, such as "count=3,bytes=-1;countHardLimit=5".
type quota map[string]int64

// parseQuota fails where the real server does: any text may be a name, but each needs a number.
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

// get returns a number, or -1, which is no limit, if it is missing.
func (q quota) get(name string) int64 {
	if n, found := q[name]; found {
		return n
	}
	return -1
}

func quotaText(count, bytes int64) []byte { return fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes) }

// quotaOf returns the nearest node at or above path that has limits, or "". The root never has.
func (t *Tree) quotaOf(path string) string {
	if root := t.Nodes[quotaRoot]; root == nil || len(root.children) == 0 {
		return ""
	}
	for path != "/" {
		if t.Nodes[quotaRoot+path+limitsNode] != nil {
			return path
		}
		path, _ = Split(path)
	}
	return ""
}

// checkQuota reports whether a change of so many nodes and bytes at path keeps within a hard quota.
func (x *Txn) checkQuota(path string, nodes, bytes int64) proto.Code {
	limit, used, code := x.hardQuota(path)
	if limit == nil {
		return code
	}
	exceeds := func(name, hard string, by int64) bool {
		return by != 0 && limit.get(hard) > -1 && used.get(name)+by > limit.get(hard)
	}
	if exceeds("count", "countHardLimit", nodes) || exceeds("bytes", "byteHardLimit", bytes) {
		return proto.QuotaExceeded
	}
	return proto.OK
}

// hardQuota returns the limits at path and the numbers that are compared with them. They are nil if
// no quota is enforced there. A real server decides by the numbers before the transaction, so that
// the parts of a multi may exceed a quota together.
func (x *Txn) hardQuota(path string) (limit, used quota, code proto.Code) {
	limited := ""
	if x.Tree.Rules.Quotas {
		limited = x.Tree.quotaOf(path)
	}
	if limited == "" {
		return nil, nil, proto.OK
	}
	limits := x.Tree.Nodes[quotaRoot+limited+limitsNode]
	stats := x.Tree.Nodes[quotaRoot+limited+statsNode]
	if limits.Stat.Czxid == x.Zxid {
		return nil, nil, proto.OK
	}
	limit, valid := parseQuota(string(limits.Data))
	if !valid || limits.Data == nil {
		return nil, nil, proto.MarshallingError
	}
	if stats == nil || stats.Stat.Czxid == x.Zxid {
		return nil, nil, proto.OK
	}
	before, found := x.statsBefore[stats]
	if !found {
		before = string(stats.Data)
	}
	if used, valid = parseQuota(before); !valid {
		return nil, nil, proto.MarshallingError
	}
	return limit, used, proto.OK
}

// count updates the numbers of the quota at path. It causes no event: the stats node's own stat
// does not change.
func (x *Txn) count(path string, nodes, bytes int64) {
	limited := x.Tree.quotaOf(path)
	if limited == "" {
		return
	}
	stats := x.Tree.Nodes[quotaRoot+limited+statsNode]
	if stats == nil {
		return
	}
	used, valid := parseQuota(string(stats.Data))
	if !valid {
		return
	}
	if _, found := x.statsBefore[stats]; !found {
		if x.statsBefore == nil {
			x.statsBefore = make(map[*Node]string)
		}
		x.statsBefore[stats] = string(stats.Data)
	}
	x.save(stats)
	stats.Data = quotaText(used.get("count")+nodes, used.get("bytes")+bytes)
}

// countAnew sets the numbers in a stats node that was just created.
func (x *Txn) countAnew(path string, n *Node) {
	limited, found := strings.CutPrefix(path, quotaRoot)
	if !found || !strings.HasSuffix(limited, statsNode) {
		return
	}
	limited = strings.TrimSuffix(limited, statsNode)
	if limited == "" {
		limited = "/"
	}
	var nodes, bytes int64
	for other, at := range x.Tree.Nodes {
		if other == limited || Below(other, limited) {
			nodes, bytes = nodes+1, bytes+int64(len(at.Data))
		}
	}
	n.Data = quotaText(nodes, bytes)
}
