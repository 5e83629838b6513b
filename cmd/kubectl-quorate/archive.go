package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"path/filepath"
	"time"
)

// archive writes files into a tar.gz. The first error is kept, and returned at the end.
type archive struct {
	zip   *gzip.Writer
	tar   *tar.Writer
	dir   string
	at    time.Time
	files int
	err   error
}

// newArchive begins an archive whose files are all in one directory, which is named after the last part of name.
func newArchive(to io.Writer, name string, at time.Time) *archive {
	zip := gzip.NewWriter(to)
	return &archive{zip: zip, tar: tar.NewWriter(zip), dir: filepath.Base(name), at: at}
}

func (a *archive) add(name, text string) {
	if a.err != nil {
		return
	}
	a.err = a.tar.WriteHeader(&tar.Header{Name: path.Join(a.dir, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.at, Typeflag: tar.TypeReg})
	if a.err == nil {
		_, a.err = io.WriteString(a.tar, text)
	}
	a.files++
}

func (a *archive) close() error { return errors.Join(a.err, a.tar.Close(), a.zip.Close()) }
