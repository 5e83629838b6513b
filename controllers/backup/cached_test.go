package backup

import (
	"testing"

	"github.com/quorate/quorate/test/fakeapi"
)

func TestNoDecisionOnACachedObjectIsMadeHere(t *testing.T) {
	fakeapi.CheckCompared(t, nil)
}
