package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/test/loopback"
)

func TestABackupLivesInAnS3Bucket(t *testing.T) {
	t.Parallel()
	for name, withTLS := range map[string]bool{"plain HTTP": false, "TLS with an authority of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startS3(t, withTLS)
			store := server.open(t, bucketOfTest, rootID, rootKey)
			lifeOfABackup(t, store, Keys{})
			lifeOfABackup(t, store, newKeys(t))
			if _, err := os.Stat(filepath.Join(server.data, bucketOfTest, "some", "prefix")); err == nil {
				t.Error("something is left of backups that were deleted")
			}
		})
	}
}

// A part that is sent in several pieces, and is the same when it comes back.
func TestALargePartIsSentInPieces(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	store := server.open(t, bucketOfTest, rootID, rootKey)
	const size = 3*partSize + 12345
	part, err := store.WritePart(t.Context(), "b", "large", Keys{}, noise(7, size))
	if err != nil {
		t.Fatal(err)
	}
	if part.Size != size || part.StoredSize < size {
		t.Errorf("the part is %+v", part)
	}
	var read int64
	if err := store.ReadPart(t.Context(), "b", part, Keys{}, func(r io.Reader) (err error) {
		read, err = io.Copy(io.Discard, r)
		return err
	}); err != nil || read != size {
		t.Errorf("%d bytes come back: %v", read, err)
	}
	plain, stored := store.Progress()
	if plain != 2*size || stored != 2*part.StoredSize {
		t.Errorf("progress says %d and %d", plain, stored)
	}
}

// Neither a part nor pieces of it stay when a source dies, or when the caller gives up, in whichever piece.
func TestAnUploadToS3ThatEndsEarlyLeavesNothing(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	store := server.open(t, bucketOfTest, rootID, rootKey)
	died := errors.New("the source died")
	for name, size := range map[string]int64{"in the first piece": 1 << 20, "in a later piece": 2*partSize + 1000, "after a piece": 2 * partSize} {
		_, err := store.WritePart(t.Context(), "b", "part", Keys{}, func(w io.Writer) error {
			return errors.Join(noise(1, size)(w), died)
		})
		if !errors.Is(err, died) {
			t.Errorf("%s: the error of the source does not come back: %v", name, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err = store.WritePart(ctx, "b", "part", Keys{}, func(w io.Writer) error {
			err := noise(1, size)(w)
			cancel(died)
			return err
		})
		if !errors.Is(err, died) {
			t.Errorf("%s: the reason to give up does not come back: %v", name, err)
		}
		if objects, err := store.List(t.Context(), ""); err != nil || len(objects) > 0 {
			t.Errorf("%s: there is %v, %v", name, objects, err)
		}
		// S3 says that pieces which are under way while an upload is removed may survive it. This server has that race, too: now and then, not always.
		left := pieces(t, server)
		for try := 0; left > 0; try++ {
			if try == 5 {
				t.Fatalf("%s: pieces are left every time that somebody pays for", name)
			}
			_, _ = store.WritePart(t.Context(), "b", "part", Keys{}, func(w io.Writer) error { return errors.Join(noise(1, size)(w), died) })
			now := pieces(t, server)
			if now == left {
				break
			}
			left = now
		}
	}
}

func TestS3SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	server.addUser(t, "guest", "secret-of-the-guest")
	down := (&s3Server{endpoint: "http://" + loopback.Address(t)}).open(t, bucketOfTest, rootID, rootKey)
	down.patience = time.Second
	for name, c := range map[string]struct {
		store *Store
		want  error
	}{
		"unknown key":    {server.open(t, bucketOfTest, "nobody", rootKey), ErrCredentials},
		"wrong secret":   {server.open(t, bucketOfTest, rootID, "another"), ErrCredentials},
		"missing bucket": {server.open(t, "elsewhere", rootID, rootKey), ErrNoBucket},
		"no right":       {server.open(t, bucketOfTest, "guest", "secret-of-the-guest"), ErrNotAllowed},
		"server down":    {down, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if c.want == nil {
				limit = 3 * time.Second // A read goes on for minutes.
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for call, err := range everyCall(ctx, c.store) {
				switch {
				case err == nil:
					t.Errorf("%s succeeds", call)
				case c.want != nil && !errors.Is(err, c.want):
					t.Errorf("%s: got %v, want %v", call, err, c.want)
				case c.want == nil && permanent(err):
					t.Errorf("%s: what is over when the server is back is said to be permanent: %v", call, err)
				case strings.Contains(err.Error(), "secret-of") || strings.Contains(err.Error(), rootKey):
					t.Errorf("%s: the error holds a secret: %v", call, err)
				}
			}
		})
	}
}

// everyCall is what each method says of a store that something is wrong with.
func everyCall(ctx context.Context, s *Store) map[string]error {
	said := map[string]error{}
	_, said["WritePart"] = s.WritePart(ctx, "b", "part", Keys{}, noise(1, 1000))
	said["Put"] = s.Put(ctx, "b/state", []byte("x"))
	_, said["Get"] = s.Get(ctx, "b/state", 10)
	_, said["List"] = s.List(ctx, "")
	_, said["Backups"] = s.Backups(ctx)
	_, said["ReadManifest"] = s.ReadManifest(ctx, "b", Keys{})
	said["DeleteBackup"] = s.DeleteBackup(ctx, "b")
	hash := strings.Repeat("0", 64)
	said["ReadPart"] = s.ReadPart(ctx, "b", Part{Name: "part", Size: 1, StoredSize: 1, SHA256: hash, StoredSHA256: hash}, Keys{},
		func(io.Reader) error { return nil })
	return said
}

// WORM: an account may write and read, and not delete.
func TestABucketWithoutTheRightToDeleteKeepsTheBackupWhole(t *testing.T) {
	t.Parallel()
	server := startS3(t, false)
	server.addUser(t, "writer", "secret-of-the-writer")
	server.setPolicy(t, "writer", "s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:AbortMultipartUpload")
	store := server.open(t, bucketOfTest, "writer", "secret-of-the-writer")
	m := writeBackup(t, store, "b", Keys{}, noise(1, 1000))
	if err := store.DeleteBackup(t.Context(), "b"); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("got %v, want ErrNotAllowed", err)
	}
	if there, err := store.Backups(t.Context()); err != nil || !cmp.Equal(there, []string{"b"}) {
		t.Errorf("the backups are %v, %v", there, err)
	}
	if err := store.ReadPart(t.Context(), "b", m.Parts[0], Keys{}, func(io.Reader) error { return nil }); err != nil {
		t.Errorf("the backup is not whole any more: %v", err)
	}
	// Nor may it be replaced.
	if _, err := store.WritePart(t.Context(), "b", m.Parts[0].Name, Keys{}, noise(2, 1000)); !errors.Is(err, ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
}

// noise writes bytes that do not compress, in calls of different sizes.
func noise(seed uint64, size int64) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), size), make([]byte, 50000))
		return err
	}
}

func bytesOf(t *testing.T, fill func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pieces counts uploads that are neither complete nor removed.
func pieces(t *testing.T, server *s3Server) (n int) {
	t.Helper()
	server.run(t, func(ctx context.Context, c *s3.Client) error {
		uploads, err := c.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: aws.String(bucketOfTest)})
		if err == nil {
			n = len(uploads.Uploads)
		}
		return err
	})
	return n
}
