package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
)

// sh runs a script in a node.
func (r *runner) sh(ctx context.Context, node, script string, args ...string) (string, error) {
	return r.OnNode(ctx, node, append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// exhaustion lets a program eat the memory that a container may have. The limit is set to what the server uses, and a little more, and the
// server is what the kernel is told to end first.
const exhaustion = harness.ProcessOf + `[ -n "$pid" ] || exit 1
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup"); limit=memory.max; used=memory.current
else
  group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' "/proc/$pid/cgroup"); limit=memory.limit_in_bytes; used=memory.usage_in_bytes
fi
echo 1000 >"/proc/$pid/oom_score_adj"
echo $(($(cat "$group/$used") + 16777216)) >"$group/$limit"
sh -c 'echo $$ >"$1/cgroup.procs"; exec timeout 30 tail /dev/zero' sh "$group" &
for _ in $(seq 300); do
  [ -e "/proc/$pid" ] || exit 0
  sleep 0.1
done
echo "process $pid of $group lives on" >&2
exit 1`

// exhaust lets the kernel end a server because its container is out of memory.
func exhaust(ctx context.Context, r *runner, t *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
	return nil, r.inContainer(ctx, t, &pods[0], exhaustion)
}

// corrupt spoils the data of a server, so that it cannot start from it. One whose disk is not its first one is not given another one before
// ten minutes have passed, which is not what is to be seen here.
func corrupt(ctx context.Context, r *runner, t *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.Get(ctx, client.ObjectKey{Namespace: r.ns, Name: cluster.VolumeData + "-" + pods[0].Name}, &claim); err != nil {
		return nil, fmt.Errorf("read the claim of %s: %w", pods[0].Name, err)
	}
	if made := claim.CreationTimestamp.Time; made.Sub(r.run.Began) > 0 && time.Since(made) < 10*time.Minute {
		return nil, fmt.Errorf("%w: the volume of %s is a new one, and not replaced within ten minutes", errSkip, pods[0].Name)
	}
	err := r.Corrupt(ctx, &pods[0], t.container)
	if errors.Is(err, harness.ErrTooShort) {
		err = fmt.Errorf("%w: %w", errSkip, err)
	}
	return nil, err
}

// inContainer runs a script in the node of a pod, with the id of its server's container.
func (r *runner) inContainer(ctx context.Context, t *target, pod *corev1.Pod, script string) error {
	id, err := harness.ContainerID(pod, t.container)
	if err != nil {
		return err
	}
	_, err = r.sh(ctx, pod.Spec.NodeName, script, id)
	return err
}

// The ways to make a network slow. netem delays every packet; where the kernel lacks it, a token bucket lets so little through that packets queue.
const (
	delayed   = "tc qdisc add dev eth0 root netem delay 100ms"
	throttled = "tc qdisc add dev eth0 root tbf rate 2mbit burst 8kb latency 400ms"
)

// slow makes what a node sends to others slow.
func slow(ctx context.Context, r *runner, node string) (undo, error) {
	_, err := r.sh(ctx, node, delayed)
	if err != nil {
		_, err = r.sh(ctx, node, throttled)
		r.remark("The kernel has no netem: a slow network is one of 2 Mbit/s, with queues of up to 400 ms, instead of 100 ms more for each packet.")
	}
	return func(ctx context.Context) error {
		_, err := r.sh(ctx, node, "tc qdisc del dev eth0 root")
		return err
	}, err
}

// The volumes of the clusters are on a file system of their own in each node, so that it can be filled.
const (
	// disk is where it is mounted: below what the provisioner of volumes uses.
	disk   = "/var/local-path-provisioner/" + class
	filler = disk + "/filler"
	// image is the file that holds it. What is not written takes no room.
	image     = "/var/" + class + ".img"
	imageSize = "2560M"
	unit      = class + ".service"
	// class is the StorageClass whose volumes go there.
	class = "quorate-chaos"
)

// mountDisk makes the file system, and a unit that mounts it whenever the node starts, before any pod does.
const mountDisk = `set -e
mountpoint -q ` + disk + ` && exit 0
rm -f ` + image + `
truncate -s ` + imageSize + ` ` + image + `
mkfs.ext4 -q -m 0 -F ` + image + `
mkdir -p ` + disk + `
cat >/etc/systemd/system/` + unit + ` <<UNIT
[Unit]
Before=kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -o loop ` + image + ` ` + disk + `
ExecStop=/bin/umount ` + disk + `
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --quiet --now ` + unit + `
chmod 0777 ` + disk

// removeDisk takes it away.
const removeDisk = `systemctl disable --quiet --now ` + unit + ` 2>/dev/null
mountpoint -q ` + disk + ` && umount ` + disk + `
rm -rf /etc/systemd/system/` + unit + ` ` + image + `
systemctl daemon-reload
mountpoint -q ` + disk + ` || rm -rf ` + disk

// fill leaves no room on the disk of a node.
func fill(ctx context.Context, r *runner, node string) (undo, error) {
	_, err := r.sh(ctx, node, `fallocate -l "$(df --output=avail -B1 `+disk+` | tail -n 1)" `+filler+` ||
  dd if=/dev/zero of=`+filler+` bs=1M oflag=append conv=notrunc status=none 2>/dev/null
[ "$(df --output=avail -B1M `+disk+` | tail -n 1)" -lt 1 ]`)
	return func(ctx context.Context) error {
		_, err := r.sh(ctx, node, "rm -f "+filler)
		return err
	}, err
}

// disks runs a script in all nodes.
func (r *runner) disks(ctx context.Context, script string) error {
	var errs []error
	for _, node := range append([]string{r.control}, r.workers...) {
		if _, err := r.sh(ctx, node, script); err != nil {
			errs = append(errs, fmt.Errorf("the disk of %s: %w", node, err))
		}
	}
	return errors.Join(errs...)
}
