package backup

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	manifestName = "manifest.json"
	// maxPath leaves room for a prefix: keys of S3 end at 1024 bytes. File systems take 255 bytes for one name, of which temporary files need some.
	maxPath, maxSegment = 800, 200
)

// segment is one name between slashes. It is narrow on purpose: the same path must mean the same on every store and in every shell.
var segment = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._=+@-]*$`)

// checkPath tells what is wrong with the path of an object or of a backup, which may come from a manifest that somebody else wrote. It
// keeps out whatever could lead elsewhere: "..", absolute paths, backslashes, control characters.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("the path is empty")
	case len(path) > maxPath:
		return fmt.Errorf("the path is longer than %d bytes, it begins with %.40q", maxPath, path)
	}
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > maxSegment {
			return fmt.Errorf("a name in the path is longer than %d bytes, it begins with %.40q", maxSegment, name)
		}
		if !segment.MatchString(name) {
			return fmt.Errorf("%q is no path: names between slashes consist of letters, digits and . _ = + @ -, and begin with a letter, digit or _", path)
		}
	}
	return nil
}

// checkPart tells what is wrong with the name of a part.
func checkPart(name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	if name == manifestName || strings.HasSuffix(name, "/"+manifestName) {
		return fmt.Errorf("%q is the name of manifests, and not of parts", name)
	}
	return nil
}

// partPath is where a part of a backup is stored.
func partPath(dir, name string) (string, error) {
	if err := checkPath(dir); err != nil {
		return "", err
	}
	if err := checkPart(name); err != nil {
		return "", err
	}
	return dir + "/" + name, nil
}
