package config

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestTheShortestFenceIsWhatReplicasNeedToReport(t *testing.T) {
	for timeout, want := range map[time.Duration]string{time.Second: "2", 1500 * time.Millisecond: "2", 5 * time.Second: "5"} {
		if got := fencing(&v1alpha1.RedisConfig{NodeTimeout: &metav1.Duration{Duration: timeout}}); got[0].args[0] != want {
			t.Errorf("%s: %v, want %s", timeout, got, want)
		}
	}
}
