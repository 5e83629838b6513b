package harness

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Version returns the version of a data store under test by its key in hack/versions.env, for example ETCD_3_6: from
// the environment, else as it was really built, else as it is pinned.
func (c *Cluster) Version(key string) (string, error) {
	if v := os.Getenv(key); v != "" {
		return v, nil
	}
	cache := os.Getenv("QUORATE_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find versions: %w", err)
		}
		cache = filepath.Join(base, "quorate")
	}
	for _, file := range []string{filepath.Join(cache, "images/datastores.env"), filepath.Join(c.Root, "hack/versions.env")} {
		if v := readKey(file, key); v != "" {
			return v, nil
		}
	}
	return "", fmt.Errorf("there is no version %s in the environment or hack/versions.env", key)
}

// readKey finds KEY=value in a file, empty when it is not there.
func readKey(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key+"="); ok {
			return value
		}
	}
	return ""
}
