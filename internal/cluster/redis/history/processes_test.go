package history

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

func TestAServerThatCannotBeReadIsNotForgotten(t *testing.T) {
	p := &model.Pod{Name: "c-0-0", Node: &model.Node{Clock: time.Now(), Log: 10}, Clock: anomaly.Clock{Server: "c-0-0", Least: time.Hour, Most: time.Hour}}
	was := watchLog(p, appendLog{}, model.EverySecond)
	if first := watchLog((&model.Pod{Node: p.Node, Clock: anomaly.Clock{Server: "c-0-0", Least: -time.Hour, Most: -time.Hour}}), appendLog{}, model.EverySecond); first.putBack {
		t.Error("a clock that was never seen to be elsewhere was put back")
	}
	node := p.Node
	p.Node = nil
	was = watchLog(p, was, model.EverySecond)
	p.Node, p.Clock = node, anomaly.Clock{Server: "c-0-0"}
	if watchLog(p, was, model.EverySecond); !p.PutBack {
		t.Error("a clock that was put back while nobody could read it is not noticed")
	}
}
