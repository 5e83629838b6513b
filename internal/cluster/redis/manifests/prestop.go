package manifests

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// lastWords is what a pod does before its server is told to end, in the words of a shell: while the server is the primary and has a
// replica, it waits for the operator to have that take over, for ten seconds at most. When that is done, it stays for a moment to
// send clients on that have not noticed.
const lastWords = `waited=
for _ in $(seq 50); do
  %s || break
  waited=y
  sleep 0.2
done
[ -z "$waited" ] || [ -n "$primary" ] || sleep 2`

// leads tells in such words whether a server owns slots and has a replica that is not known to have failed. The server keeps its table in
// the file (clusterSaveConfig), and writes it whenever somebody is promoted.
const leads = `me=$(sed -n 's/^\([0-9a-f]*\) .*myself,master - .* connected [0-9].*/\1/p' ` + model.DataDir + "/" + model.NodesFile + `)
  primary=$(grep myself,master ` + model.DataDir + "/" + model.NodesFile + `)
  [ -n "$me" ] && grep -q " slave $me " ` + model.DataDir + "/" + model.NodesFile

// leadsAlone tells it in the mode Replicated, where no file does: the server is asked as its replicas ask theirs, with the passwords that
// the Secret holds at present. The kubelet may be a phase behind while they are replaced, so that each is tried: what fails leaves the one before in
// force. Of a primary the answer is its role, an offset and three lines for each replica.
const leadsAlone = `primary=$({ for f in ` + model.ReplicationDir + `/*; do sed 's/[\\"]/\\&/g; s/.*/AUTH ` + acl.UserReplication + ` "&"/' "$f"; echo; done; echo ROLE; } |
    $(command -v valkey-cli || command -v redis-cli) -h 127.0.0.1 -p 6379%s 2>/dev/null | sed -n '/^master$/,$p')
  [ $(echo "$primary" | wc -l) -gt 2 ]`

// lastWords of the servers of this cluster.
func (b Builder) lastWords() string {
	if !b.Cluster.Spec.IsReplicated() {
		return fmt.Sprintf(lastWords, leads)
	}
	secure := ""
	if b.TLSSecret != "" {
		secure = " --tls --cacert " + model.TLSDir + "/ca.crt"
	}
	return fmt.Sprintf(lastWords, fmt.Sprintf(leadsAlone, secure))
}
