package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
)

// badRoad stands between a store and its server, and does to requests what a test wants.
type badRoad struct {
	proxy *httputil.ReverseProxy
	// refuse answers in the place of the server where it returns a status.
	refuse func(*http.Request) int
	// page is what it says then.
	page string
	// body replaces what the server sends or is sent.
	answer func(*http.Request, io.ReadCloser) io.ReadCloser
}

func (b *badRoad) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.refuse != nil {
		if status := b.refuse(r); status != 0 {
			_, _ = io.Copy(io.Discard, r.Body) // Or the client may see a connection that breaks instead.
			w.WriteHeader(status)
			_, _ = io.WriteString(w, b.page)
			return
		}
	}
	b.proxy.ServeHTTP(w, r)
}

// through opens a store whose requests take a bad road.
func (s *s3Server) through(t *testing.T, b *badRoad) *Store {
	t.Helper()
	to, err := url.Parse(s.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // The signature covers the host.
		ModifyResponse: func(r *http.Response) error {
			if b.answer != nil {
				r.Body = b.answer(r.Request, r.Body)
			}
			return nil
		},
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(b)
	t.Cleanup(front.CloseClientConnections)
	t.Cleanup(front.Close)
	return (&s3Server{endpoint: front.URL}).open(t, bucketOfTest, rootID, rootKey)
}

func TestAStoreThatFailsNowAndThenIsAskedAgain(t *testing.T) {
	t.Parallel()
	for what, how := range map[string]struct {
		status int
		page   string
	}{
		"it is busy":                    {http.StatusServiceUnavailable, ""},
		"a proxy does not find it":      {http.StatusNotFound, ""},
		"a proxy shows its page for it": {http.StatusNotFound, notFoundPage},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			store := startS3(t, false).through(t, &badRoad{page: how.page, refuse: func(r *http.Request) int {
				if r.Method != http.MethodHead && requests.Add(1)%5 == 0 { // After that, a 404 ends the attempt.
					return how.status
				}
				return 0
			}})
			lifeOfABackup(t, store, Keys{})
			m := writeBackup(t, store, "large", Keys{}, noise(4, 2*partSize))
			if err := store.ReadPart(t.Context(), "large", m.Parts[0], Keys{}, func(io.Reader) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// notFoundPage is that of nginx. It is no XML.
const notFoundPage = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"

// Nor is anything left of a backup that is to go, when somebody else says that it is gone.
func TestABackupIsNotTakenForDeletedByA404OfSomebodyElse(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	direct := server.open(t, bucketOfTest, rootID, rootKey)
	writeBackup(t, direct, "b", Keys{}, noise(1, 1000))
	lost := true
	store := server.through(t, &badRoad{refuse: func(r *http.Request) int {
		if lost && r.Method == http.MethodHead {
			return http.StatusNotFound
		}
		return 0
	}})
	if err := store.DeleteBackup(t.Context(), "b"); err == nil || permanent(err) {
		t.Errorf("%v", err)
	}
	if dirs, err := direct.Backups(t.Context()); err != nil || len(dirs) != 1 {
		t.Errorf("there is %v, %v", dirs, err)
	}
	if objects, err := direct.List(t.Context(), "b/"); err != nil || len(objects) != 2 {
		t.Errorf("there is %v, %v", objects, err)
	}
	lost = false
	for range 2 {
		if err := store.DeleteBackup(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	}
	if objects, err := direct.List(t.Context(), "b/"); err != nil || len(objects) != 0 {
		t.Errorf("there is %v, %v", objects, err)
	}
}

// A 404 that is not the store's own says nothing of what is stored: nobody may be told that a backup is missing.
func TestA404OfSomebodyElseIsNotTheStores(t *testing.T) {
	t.Parallel()
	s3 := func(call, code string) error {
		response := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusNotFound}}
		return &smithy.OperationError{ServiceID: "S3", OperationName: call, Err: &smithyhttp.ResponseError{Response: response, Err: &smithy.GenericAPIError{Code: code}}}
	}
	page := func(call string) error {
		response := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusNotFound}}
		return &smithy.OperationError{ServiceID: "S3", OperationName: call, Err: &smithyhttp.ResponseError{Response: response, Err: errors.New("no XML")}}
	}
	azure := func(code string) error {
		return &azcore.ResponseError{StatusCode: http.StatusNotFound, ErrorCode: code}
	}
	for what, c := range map[string]struct{ err, want error }{
		"S3 knows no such object":         {s3("GetObject", "NoSuchKey"), ErrNotFound},
		"S3 knows no such bucket":         {s3("PutObject", "NoSuchBucket"), ErrNoBucket},
		"a proxy in front of S3, reading": {s3("GetObject", "NotFound"), nil},
		"a proxy in front of S3, writing": {s3("PutObject", "NotFound"), nil},
		"a proxy that says it at length":  {page("GetObject"), nil},
		"Azure knows no such object":      {azure("BlobNotFound"), ErrNotFound},
		"a proxy in front of Azure":       {azure(""), nil},
	} {
		// As the library of the stores hands them on.
		err := classify(t.Context(), fmt.Errorf("blob (key %q): %w", "b/state", c.err))
		if permanent(err) != (c.want != nil) || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// cut ends after some bytes, as a connection does that breaks.
type cut struct {
	io.ReadCloser
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func TestADownloadGoesOnWhereItsConnectionBroke(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	want := bytesOf(t, noise(5, 5<<20))
	m := writeBackup(t, server.open(t, bucketOfTest, rootID, rootKey), "b", Keys{}, noise(5, 5<<20))
	var gets atomic.Int64
	store := server.through(t, &badRoad{answer: func(r *http.Request, body io.ReadCloser) io.ReadCloser {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "etcd.db") {
			return body
		}
		gets.Add(1)
		return &cut{body, 1 << 20}
	}})
	var got []byte
	if err := store.ReadPart(t.Context(), "b", m.Parts[0], Keys{}, func(r io.Reader) (err error) {
		got, err = io.ReadAll(r)
		return err
	}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	if gets.Load() < 5 {
		t.Errorf("the object was asked for %d times: nothing broke", gets.Load())
	}
	_, stored := store.Progress()
	if stored != m.Parts[0].StoredSize {
		t.Errorf("%d bytes were read of %d", stored, m.Parts[0].StoredSize)
	}
}

// A store that takes requests and moves nothing must hold nobody up for ever.
func TestAStoreThatMovesNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	m := writeBackup(t, server.open(t, bucketOfTest, rootID, rootKey), "b", Keys{}, noise(5, 5<<20))
	stuck := func(r *http.Request) int {
		if r.Method == http.MethodPut || (r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "etcd.db")) {
			_, _ = io.Copy(io.Discard, r.Body) // Or the end of the request is not seen.
			<-r.Context().Done()
		}
		return 0
	}
	store := server.through(t, &badRoad{refuse: stuck})
	store.stall, store.patience = 300*time.Millisecond, 300*time.Millisecond
	if _, err := store.WritePart(t.Context(), "c", "p", Keys{}, noise(1, 1000)); !errors.Is(err, ErrStalled) {
		t.Errorf("WritePart: %v", err)
	}
	if err := store.Put(t.Context(), "c/state", []byte("x")); !errors.Is(err, ErrStalled) {
		t.Errorf("Put: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := store.ReadPart(ctx, "b", m.Parts[0], Keys{}, func(io.Reader) error { return nil }); !errors.Is(err, ErrStalled) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ReadPart: %v", err)
	}
	// A source that is slow is not the fault of the store.
	slow := inMemory(t)
	slow.stall = time.Second
	if _, err := slow.WritePart(t.Context(), "c", "p", Keys{}, func(w io.Writer) error {
		for range 2 {
			time.Sleep(1200 * time.Millisecond)
			if _, err := w.Write([]byte("x")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("a slow source: %v", err)
	}
}

// The store goes away in the middle of an upload, for good: the part is not there, and the former backups are.
func TestAStoreThatGoesAwayLeavesNoPart(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	direct := server.open(t, bucketOfTest, rootID, rootKey)
	var requests atomic.Int64
	store := server.through(t, &badRoad{refuse: func(r *http.Request) int {
		if r.Method == http.MethodPut && requests.Add(1) > 2 { // In the third piece.
			return http.StatusForbidden
		}
		return 0
	}})
	if _, err := store.WritePart(t.Context(), "b", "p", Keys{}, noise(1, 5*partSize)); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("got %v", err)
	}
	if objects, err := direct.List(t.Context(), ""); err != nil || !cmp.Equal(len(objects), 0) {
		t.Errorf("there is %v, %v", objects, err)
	}
}
