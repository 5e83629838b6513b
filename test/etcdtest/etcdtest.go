// Package etcdtest holds values of etcd that tests of several packages share.
package etcdtest

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Releases of each supported minor version.
var (
	V35 = model.Version{Major: 3, Minor: 5, Patch: 35}
	V36 = model.Version{Major: 3, Minor: 6, Patch: 16}
	V37 = model.Version{Major: 3, Minor: 7, Patch: 3}
)

// Version parses a version.
func Version(t *testing.T, text string) model.Version {
	t.Helper()
	v, err := model.ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Config sets every typed field, and free parameters.
func Config() *v1alpha1.EtcdConfig {
	return &v1alpha1.EtcdConfig{
		QuotaBackendBytes:       ptr.To(resource.MustParse("4Gi")),
		AutoCompactionMode:      ptr.To("Revision"),
		AutoCompactionRetention: ptr.To("5000"),
		SnapshotCount:           ptr.To(int64(20000)),
		HeartbeatInterval:       &metav1.Duration{Duration: 50 * time.Millisecond},
		ElectionTimeout:         &metav1.Duration{Duration: time.Second},
		MaxRequestBytes:         ptr.To(resource.MustParse("2Mi")),
		LogLevel:                ptr.To("warn"),
		Extra: map[string]v1alpha1.ConfigValue{
			"max-txn-ops": "256", "grpc-keepalive-interval": "2h", "pre-vote": "true",
			"cipher-suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
		},
	}
}

// Bucket is where backups are.
var Bucket = v1alpha1.BackupDestination{
	URL: "s3://bucket/orders", Credentials: &v1alpha1.SecretReference{Name: "s3"}, Encryption: &v1alpha1.SecretReference{Name: "age"},
	ServiceAccountName: ptr.To("backup"),
}

// Restore is a backup that a cluster begins with.
func Restore() *model.Restore {
	return &model.Restore{
		Destination: Bucket, Directory: "orders-1", Timeline: "c1", Revision: 70, Bump: model.RestoreBump, Token: "u-1",
	}
}
