// Package repository finds the files of the repository from the directory that a test runs in.
package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Root returns the directory of the repository: the one above the working directory that has go.mod.
var Root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("find the repository: no go.mod above the working directory")
})

// File returns the path of a file that is named from the root.
func File(name string) (string, error) {
	root, err := Root()
	return filepath.Join(root, name), err
}
