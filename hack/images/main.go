// Command images prints every image that an installation of Quorate needs, one a line: the operator's, and those of the versions of the data
// stores that it is tested with (hack/versions.env). Who mirrors images for a site without Internet mirrors these.
//
//	go run ./hack/images IMG
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
)

const versions = "hack/versions.env"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: images IMG, in the root of the repository; IMG is the operator's image")
	}
	f, err := os.Open(versions)
	if err != nil {
		return fmt.Errorf("open the versions: %w", err)
	}
	defer func() { _ = f.Close() }()
	stores, err := dataStores(f)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.Join(append([]string{args[0]}, stores...), "\n"))
	return err
}

// dataStores are the public images of the versions in an env file.
func dataStores(env io.Reader) ([]string, error) {
	var out []string
	lines := bufio.NewScanner(env)
	for lines.Scan() {
		key, version, _ := strings.Cut(lines.Text(), "=")
		name, _, _ := strings.Cut(key, "_")
		if strings.HasSuffix(key, "_SUITE") || strings.HasSuffix(key, "_VERSION") {
			continue
		}
		switch name {
		case "ETCD":
			v, err := etcdmodel.ParseVersion(version)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			out = append(out, etcdmanifests.Image(v1alpha1.EtcdClusterSpec{}, v, ""))
		case "REDIS", "VALKEY":
			engine := v1alpha1.RedisEngine(strings.ToLower(name))
			out = append(out, redismanifests.Image(&v1alpha1.RedisClusterSpec{Engine: ptr.To(engine), Version: version}, ""))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the versions: %w", err)
	}
	return out, nil
}
