package steps

import (
	"testing"

	"github.com/quorate/quorate/test/phasetest"
)

func TestEveryStepHasAReason(t *testing.T) {
	phasetest.CheckSteps(
		t,
		SetConfigEpochs{}, Meet{}, AddSlots{}, Replicate{}, Forget{}, Part{}, AdmitReplicas{},
		Failover{}, End{}, Elect{}, TakeOver{}, HandOver{}, Follow{}, Promote{}, Appoint{}, AssignRoles{},
		GuardWrites{}, GuardShards{}, Adopt{},
		AssignEmpty{}, ImportLost{}, OwnLoaded{}, OpenSlots{}, CloseSlots{}, MoveSlots{},
		CancelMigration{}, CountLoad{}, DropShard{}, ScaleShards{}, MigrateSlots{},
		Restart{Cause: ReasonRestart}, Guard{}, DeleteClaim{}, ReplaceDisk{}, Announce{}, Withdraw{},
		ResizePod{}, Configure{}, KeepLogs{}, SetUsers{}, DeleteUsers{},
		RotatePasswords{Cause: ReasonHandOut}, ReloadCertificates{}, SetReplicationPassword{},
		RecordBackup{}, LoadBackup{},
	)
}
