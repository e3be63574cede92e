package node

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
)

// touchName is Curator's name of the child that keeps a node with a TTL.
const touchName = "touch"

// touch writes to the touch child every half TTL while the node is there, until the Node or the client is closed. What fails is tried
// again after a pause.
func (n *Node) touch() {
	path, logged := framework.Join(n.asked, touchName), ""
	pauses := wait.Pauses{First: firstPause, Last: lastPause}
	for pause := n.cfg.ttl / 2; ; {
		_ = engine.Sleep(n.ctx, engine.Of(n.client), pause)
		s, err := n.now.Until(n.ctx, func(s status) bool { return s.present() || errors.Is(s.err, framework.ErrClosed) })
		if err != nil || !s.present() {
			return
		}
		_, err = n.client.Set(n.ctx, path, n.client.DefaultData(), -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = n.client.Create(n.ctx, path, nil, framework.TTL(n.cfg.ttl))
		}
		if err == nil || errors.Is(changed(err), errAgain) { // the child is there, or the node is made again
			pause = n.cfg.ttl / 2
			pauses.Reset()
			continue
		}
		pause = pauses.Next()
		if isAnswer(err) && err.Error() != logged {
			logged = err.Error()
			n.client.Logger().Warn("node with a TTL is not touched", "path", n.asked, "reason", err)
		}
	}
}
