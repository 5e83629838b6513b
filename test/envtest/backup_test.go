package envtest

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

var (
	backupKind = kind{"Backup", "backups", `
apiVersion: quorate.dev/v1alpha1
kind: Backup
metadata: {name: orders-before-upgrade, namespace: default}
spec: {cluster: {kind: EtcdCluster, name: orders}, destination: {url: "s3://bucket/orders"}}
`}
	scheduleKind = kind{"BackupSchedule", "backupschedules", `
apiVersion: quorate.dev/v1alpha1
kind: BackupSchedule
metadata: {name: orders-nightly, namespace: default}
spec: {cluster: {kind: EtcdCluster, name: orders}, schedule: "0 3 * * *", destination: {url: "s3://bucket/orders"}}
`}
)

var restoreKind = kind{"Restore", "restores", `
apiVersion: quorate.dev/v1alpha1
kind: Restore
metadata: {name: undo, namespace: default}
spec: {cluster: {kind: EtcdCluster, name: orders}, from: {backup: good}}
`}

var validInPlace = map[string]string{
	"of a backup":              ``,
	"of a place":               `from: {backup: null, destination: {url: "s3://bucket/orders", credentials: {name: s3}}}`,
	"of a directory":           `from: {backup: null, destination: {url: "pvc://backups"}, directory: orders-20260501T000000Z-1b9d6bcd}`,
	"to a revision":            `from: {revision: 7}`,
	"to a time":                `from: {time: "2026-05-01T12:00:00Z"}`,
	"of servers":               `cluster: {kind: RedisCluster}`,
	"of servers that are lost": `{cluster: {kind: RedisCluster}, slots: Lost}`,
	"without a copy":           `{cluster: {kind: RedisCluster}, slots: All, saveCurrent: false}`,
	"longest name of cluster":  `cluster: {name: ` + longName[1:] + `}`,
}

var invalidInPlace = map[string]bad{
	"of nothing":               {spec: `from: {backup: null}`, field: "spec.from.backup", words: "backup or destination is needed"},
	"of two":                   {spec: `from: {destination: {url: "s3://b"}}`, field: "spec.from.backup", words: "backup or destination is needed"},
	"a directory of a backup":  {spec: `from: {directory: b}`, field: "spec.from.directory", words: "a Backup knows its own"},
	"a revision and a time":    {spec: `from: {revision: 7, time: "2026-05-01T12:00:00Z"}`, field: "spec.from.time", words: "exclude each other"},
	"a backup elsewhere":       {spec: `from: {backup: team-a/b}`, field: "spec.from.backup", words: "of the same namespace"},
	"another kind":             {spec: `cluster: {kind: Pod}`, field: "spec.cluster.kind", words: "Unsupported value"},
	"a cluster elsewhere":      {spec: `cluster: {name: team-a/orders}`, field: "spec.cluster.name", words: "of the same namespace"},
	"slots of etcd":            {spec: `slots: Lost`, field: "spec.slots", words: "etcd is restored as a whole"},
	"some slots":               {spec: `{cluster: {kind: RedisCluster}, slots: "0-7"}`, field: "spec.slots", words: "Unsupported value"},
	"a copy of etcd":           {spec: `saveCurrent: true`, field: "spec.saveCurrent", words: "what members of etcd have is kept on their volumes"},
	"a revision of servers":    {spec: `{cluster: {kind: RedisCluster}, from: {revision: 7}}`, field: "spec.from.revision", words: "are not recorded"},
	"a time of servers":        {spec: `{cluster: {kind: RedisCluster}, from: {time: "2026-05-01T12:00:00Z"}}`, field: "spec.from.time", words: "are not recorded"},
	"a place in the web":       {spec: `from: {backup: null, destination: {url: "http://b"}}`, field: "spec.from.destination.url", words: "destination.url must be s3://"},
	"a directory above":        {spec: `from: {backup: null, destination: {url: "s3://b"}, directory: ..}`, field: "spec.from.directory", words: "directory must be the name of one below the url"},
	"another account":          {spec: `from: {backup: null, destination: {url: "s3://b", serviceAccountName: a/b}}`, field: "spec.from.destination.serviceAccountName", words: "destination.serviceAccountName must be"},
	"credentials elsewhere":    {spec: `from: {backup: null, destination: {url: "s3://b", credentials: {name: a/b}}}`, field: "spec.from.destination.credentials.name", words: "a Secret of the same namespace"},
	"keys elsewhere":           {spec: `from: {backup: null, destination: {url: "s3://b", encryption: {name: a/b}}}`, field: "spec.from.destination.encryption.name", words: "a Secret of the same namespace"},
	"a name that is too long":  {whole: `metadata: {name: ` + strings.Repeat("a", 49) + `}`, field: "metadata", words: "at most 48"},
	"a name that is no prefix": {whole: `metadata: {name: 1a}`, field: "metadata", words: "begin with a letter"},
}

var restoreChanges = map[string]change{
	"another backup": {to: `from: {backup: better}`, field: "spec", words: "create another Restore"},
}

// validBackedUp suit a Backup and a BackupSchedule.
var validBackedUp = map[string]string{
	"minimal":                 ``,
	"of redis":                `cluster: {kind: RedisCluster, name: carts}`,
	"s3 of one's own":         `destination: {url: "s3://bucket/a/b?region=eu-west-1&endpoint=https://s3.example.com:9000&path-style=true", credentials: {name: s3}}`,
	"google":                  `destination: {url: "gs://my.bucket_1/a", serviceAccountName: backup}`,
	"azure":                   `destination: {url: "azblob://container"}`,
	"a claim":                 `destination: {url: "pvc://backups/orders/etcd"}`,
	"the root of a claim":     `destination: {url: "pvc://backups"}`,
	"encrypted":               `destination: {encryption: {name: age.keys}}`,
	"resources":               `resources: {requests: {cpu: 1, memory: 64Mi}, limits: {memory: 1Gi}}`,
	"nulls":                   `{resources: null, destination: {credentials: null, encryption: null, serviceAccountName: null}}`,
	"longest name of cluster": `cluster: {name: ` + longName[1:] + `}`,
}

var validBackups = map[string]string{
	"verified":          `verify: true`,
	"gone with its end": `deletionPolicy: Delete`,
	"of somebody else":  `external: {endpoints: ["https://etcd-0.etcd.old.svc:2379", "https://[fd00::1]:2379"], credentials: {name: old}}`,
	"of their servers":  `{cluster: {kind: RedisCluster}, external: {endpoints: ["rediss://10.0.0.1:6379"]}}`,
}

var validSchedules = map[string]string{
	"in a zone":            `{timeZone: Europe/Berlin, schedule: "*/15 8-18 * * 1-5"}`,
	"in words":             `schedule: "@hourly"`,
	"spread":               `{jitter: 15m, startingDeadline: 1h30m}`,
	"no jitter":            `jitter: 0s`,
	"longest durations":    `{jitter: 24h, startingDeadline: 720h, incremental: {interval: 1h}}`,
	"shortest durations":   `{jitter: 0h0m0s, startingDeadline: 10s, incremental: {interval: 1s}}`,
	"several at a time":    `concurrencyPolicy: Allow`,
	"suspended":            `suspend: true`,
	"changes are recorded": `incremental: {}`,
	"all kept":             `retention: {}`,
	"grandfathers":         `retention: {keepLast: 10000, keepHourly: 24, keepDaily: 7, keepWeekly: 4, keepMonthly: 0}`,
	"verified weekly":      `verify: {schedule: "@weekly"}`,
}

// invalidBackedUp are refused of a Backup and of a BackupSchedule.
var invalidBackedUp = map[string]bad{
	"no cluster":                {spec: `cluster: <removed>`, field: "spec.cluster", words: "Required"},
	"no kind":                   {spec: `cluster: {kind: <removed>}`, field: "spec.cluster.kind", words: "Required"},
	"another kind":              {spec: `cluster: {kind: Deployment}`, field: "spec.cluster.kind", words: `supported values: "EtcdCluster", "RedisCluster"`},
	"a cluster elsewhere":       {spec: `cluster: {name: team-a/orders}`, field: "spec.cluster.name", words: "spec.cluster.name must be the name of a cluster of the same namespace"},
	"a namespace":               {spec: `cluster: {namespace: team-a}`, field: "spec.cluster.namespace", words: "unknown field"},
	"endless cluster":           {spec: `cluster: {name: ` + longName + `}`, field: "spec.cluster.name", words: "may not be more than 40"},
	"no destination":            {spec: `destination: <removed>`, field: "spec.destination", words: "Required"},
	"no url":                    {spec: `destination: {url: <removed>}`, field: "spec.destination.url", words: "Required"},
	"empty url":                 {spec: `destination: {url: ""}`, field: "spec.destination.url", words: "destination.url must be s3://bucket/prefix"},
	"a url of the web":          {spec: `destination: {url: "https://bucket/orders"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"a file of the node":        {spec: `destination: {url: "file:///var/lib"}`, field: "spec.destination.url", words: "or pvc://claim/directory"},
	"no bucket":                 {spec: `destination: {url: "s3:///orders"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"a password in the url":     {spec: `destination: {url: "s3://key:secret@bucket/orders"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"a url that leads up":       {spec: `destination: {url: "pvc://backups/../other"}`, field: "spec.destination.url", words: "without .. in it"},
	"a url that leads up later": {spec: `destination: {url: "s3://bucket/a?prefix=../b"}`, field: "spec.destination.url", words: "without .. in it"},
	"a fragment":                {spec: `destination: {url: "s3://bucket/a#b"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"a url of two lines":        {spec: `destination: {url: "s3://bucket\n"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"an option":                 {spec: `destination: {url: "--url=s3://bucket"}`, field: "spec.destination.url", words: "destination.url must be s3://"},
	"endless url":               {spec: `destination: {url: "s3://bucket/` + strings.Repeat("a", 1024) + `"}`, field: "spec.destination.url", words: "may not be more than 1024"},
	"a Secret elsewhere":        {spec: `destination: {credentials: {name: kube-system/s3}}`, field: "spec.destination.credentials.name", words: "a Secret of the same namespace"},
	"keys elsewhere":            {spec: `destination: {encryption: {name: kube-system/age}}`, field: "spec.destination.encryption.name", words: "a Secret of the same namespace"},
	"keys without a name":       {spec: `destination: {encryption: {}}`, field: "spec.destination.encryption.name", words: "Required"},
	"keys in the spec":          {spec: `destination: {encryption: {name: a, identity: AGE-SECRET-KEY-1}}`, field: "spec.destination.encryption.identity", words: "unknown field"},
	"an account elsewhere":      {spec: `destination: {serviceAccountName: kube-system/default}`, field: "spec.destination.serviceAccountName", words: "destination.serviceAccountName must be the name of a ServiceAccount"},
	"claims of devices":         {spec: `resources: {claims: [{name: gpu}]}`, field: "spec.resources.claims", words: "spec.resources.claims cannot be set"},
	"a limit of pods":           {spec: `resources: {limits: {pods: 1}}`, field: "spec.resources.limits", words: "may hold cpu, memory and ephemeral-storage only"},
	"a request of pods":         {spec: `resources: {requests: {pods: 1}}`, field: "spec.resources.requests", words: "spec.resources.requests may hold cpu"},
	"a limit beyond reading":    {spec: `resources: {limits: {memory: 1e1.5}}`, field: "spec.resources.limits", words: "spec.resources.limits must be numbers"},
	"a request beyond reading":  {spec: `resources: {requests: {memory: 1e1.5}}`, field: "spec.resources.requests", words: "spec.resources.requests must be numbers"},
	"a limit of nothing":        {spec: `resources: {limits: {memory: 0}}`, field: "spec.resources.limits", words: "spec.resources.limits must be above zero"},
	"more than the limit":       {spec: `resources: {limits: {memory: 1Gi}, requests: {memory: 2Gi}}`, field: "spec.resources.requests", words: "spec.resources.requests cannot be above spec.resources.limits"},
	"more disk than the limit":  {spec: `resources: {limits: {ephemeral-storage: 1Gi}, requests: {ephemeral-storage: 2Gi}}`, field: "spec.resources.requests", words: "lower the request or raise the limit"},
	"name with a dot":           {whole: `metadata: {name: my.backup}`, field: "metadata", words: "lower case letters, digits and -"},
	"name that begins with one": {whole: `metadata: {name: 1st}`, field: "metadata", words: "begin with a letter"},
}

var invalidBackups = map[string]bad{
	"name too long":    {whole: `metadata: {name: ` + strings.Repeat("a", 57) + `}`, field: "metadata", words: "at most 56"},
	"another policy":   {spec: `deletionPolicy: Archive`, field: "spec.deletionPolicy", words: "Unsupported value"},
	"verify in words":  {spec: `verify: "yes"`, field: "spec.verify", words: "must be of type boolean"},
	"a check at times": {spec: `verify: {schedule: "@daily"}`, field: "spec.verify", words: "unknown field"},
	"of nobody":        {spec: `external: {}`, field: "spec.external.endpoints", words: "Required"},
	"of no endpoint":   {spec: `external: {endpoints: []}`, field: "spec.external.endpoints", words: "at least 1"},
	"no scheme":        {spec: `external: {endpoints: ["etcd:2379"]}`, field: "spec", words: "spec.external.endpoints must be https://host:2379"},
	"no port":          {spec: `external: {endpoints: ["https://etcd"]}`, field: "spec", words: "spec.external.endpoints must be https://host:2379"},
	"a path":           {spec: `external: {endpoints: ["https://etcd:2379/a"]}`, field: "spec", words: "no path"},
	"a password":       {spec: `{cluster: {kind: RedisCluster}, external: {endpoints: ["redis://:secret@redis:6379"]}}`, field: "spec", words: "no credentials"},
	"redis as etcd":    {spec: `external: {endpoints: ["redis://redis:6379"]}`, field: "spec", words: "with spec.cluster.kind EtcdCluster"},
	"etcd as redis":    {spec: `{cluster: {kind: RedisCluster}, external: {endpoints: ["https://etcd:2379"]}}`, field: "spec", words: "redis://host:6379 with RedisCluster"},
	"some with TLS":    {spec: `external: {endpoints: ["https://a:2379", "http://b:2379"]}`, field: "spec.external", words: "use the same scheme for each"},
	"their Secret":     {spec: `external: {endpoints: ["https://a:2379"], credentials: {name: old/s3}}`, field: "spec.external.credentials.name", words: "a Secret of the same namespace"},
}

var invalidSchedules = map[string]bad{
	"name too long":         {whole: `metadata: {name: ` + longName + `}`, field: "metadata", words: "at most 40"},
	"no schedule":           {spec: `schedule: <removed>`, field: "spec.schedule", words: "Required"},
	"empty schedule":        {spec: `schedule: ""`, field: "spec.schedule", words: "should be at least 1"},
	"endless schedule":      {spec: `schedule: "` + strings.Repeat("*", 129) + `"`, field: "spec.schedule", words: "may not be more than 128"},
	"a zone in it":          {spec: `schedule: "CRON_TZ=Asia/Tokyo 0 3 * * *"`, field: "spec.schedule", words: "name it in spec.timeZone"},
	"empty zone":            {spec: `timeZone: ""`, field: "spec.timeZone", words: "should be at least 1"},
	"too much jitter":       {spec: `jitter: 25h`, field: "spec.jitter", words: "must be a duration from 0s to 24h"},
	"negative jitter":       {spec: `jitter: -1s`, field: "spec.jitter", words: "must be a duration from 0s to 24h"},
	"jitter of days":        {spec: `jitter: 1d`, field: "spec.jitter", words: "for example 5m"},
	"no time to begin":      {spec: `startingDeadline: 9s`, field: "spec.startingDeadline", words: "must be a duration from 10s to 720h"},
	"too late to begin":     {spec: `startingDeadline: 721h`, field: "spec.startingDeadline", words: "must be a duration from 10s to 720h"},
	"another policy":        {spec: `concurrencyPolicy: Replace`, field: "spec.concurrencyPolicy", words: `supported values: "Forbid", "Allow"`},
	"changes of redis":      {spec: `{cluster: {kind: RedisCluster}, incremental: {}}`, field: "spec.incremental", words: "spec.incremental is for an EtcdCluster"},
	"changes at once":       {spec: `incremental: {interval: 100ms}`, field: "spec.incremental.interval", words: "must be a duration from 1s to 1h"},
	"changes now and then":  {spec: `incremental: {interval: 61m}`, field: "spec.incremental.interval", words: "must be a duration from 1s to 1h"},
	"fewer than none":       {spec: `retention: {keepLast: -1}`, field: "spec.retention.keepLast", words: "should be greater than or equal to 0"},
	"more than anybody has": {spec: `retention: {keepHourly: 10001}`, field: "spec.retention.keepHourly", words: "should be less than or equal to 10000"},
	"days and a half":       {spec: `retention: {keepDaily: 1.5}`, field: "spec.retention.keepDaily", words: "must be of type int"},
	"weeks below zero":      {spec: `retention: {keepWeekly: -1}`, field: "spec.retention.keepWeekly", words: "should be greater than"},
	"months below zero":     {spec: `retention: {keepMonthly: -1}`, field: "spec.retention.keepMonthly", words: "should be greater than"},
	"verify without a time": {spec: `verify: {}`, field: "spec.verify.schedule", words: "Required"},
	"verify at no time":     {spec: `verify: {schedule: ""}`, field: "spec.verify.schedule", words: "should be at least 1"},
	"a policy of deletion":  {spec: `deletionPolicy: Delete`, field: "spec.deletionPolicy", words: "unknown field"},
}

var backupChanges = map[string]change{
	"a check":             {to: `verify: true`},
	"data goes with it":   {to: `deletionPolicy: Delete`},
	"other resources":     {to: `resources: {limits: {memory: 1Gi}}`},
	"another cluster":     {to: `cluster: {name: carts}`, field: "spec", words: "spec.cluster, spec.external and spec.destination cannot change"},
	"another destination": {to: `destination: {url: "s3://bucket/other"}`, field: "spec", words: "create another Backup"},
	"somebody else's":     {to: `external: {endpoints: ["https://a:2379"]}`, field: "spec", words: "create another Backup"},
	"one's own":           {from: `external: {endpoints: ["https://a:2379"]}`, to: `external: <removed>`, field: "spec", words: "create another Backup"},
	"another one's":       {from: `external: {endpoints: ["https://a:2379"]}`, to: `external: {endpoints: ["https://b:2379"]}`, field: "spec", words: "create another Backup"},
	"other credentials":   {to: `destination: {credentials: {name: other}}`, field: "spec", words: "the backup is where it was put"},
}

var scheduleChanges = map[string]change{
	"another time":        {to: `{schedule: "@daily", timeZone: Asia/Tokyo}`},
	"another destination": {to: `destination: {url: "gs://bucket/other"}`},
	"suspended":           {to: `suspend: true`},
	"other retention":     {from: `retention: {keepLast: 2}`, to: `retention: {keepDaily: 7}`},
	"no changes recorded": {from: `incremental: {}`, to: `incremental: <removed>`},
	"another cluster":     {to: `cluster: {name: carts}`, field: "spec.cluster", words: "create another BackupSchedule for the other cluster"},
}

// validRestores are what a new cluster may begin with.
var validRestores = map[string]string{
	"a backup":                   `bootstrap: {restore: {backup: orders-before-upgrade}}`,
	"the newest of a place":      `bootstrap: {restore: {destination: {url: "s3://bucket/orders"}}}`,
	"one of a place":             `bootstrap: {restore: {destination: {url: "s3://bucket/orders"}, directory: orders-20260501T030000Z-1b9d6bcd}}`,
	"a backup up to a time":      `bootstrap: {restore: {backup: orders, time: "2026-05-01T12:00:00Z"}}`,
	"nothing to restore":         `bootstrap: {}`,
	"a time in a zone of theirs": `bootstrap: {restore: {backup: orders, time: "2026-05-01T12:00:00+02:00"}}`,
}

// validEtcdRestores are what only one of etcd may begin with.
var validEtcdRestores = map[string]string{"a backup up to a revision": `bootstrap: {restore: {backup: orders, revision: 4711}}`}

// invalidRedisRestores are refused of others alone.
var invalidRedisRestores = map[string]bad{
	"a revision of servers without": {spec: `bootstrap: {restore: {backup: a, revision: 7}}`, field: "spec.bootstrap.restore.revision", words: "spec.bootstrap.restore.revision is for an EtcdCluster"},
}

// invalidRestores are refused of a cluster of either kind.
var invalidRestores = map[string]bad{
	"a restore of nothing":         {spec: `bootstrap: {restore: {}}`, field: "spec.bootstrap.restore.backup", words: "backup or destination is needed"},
	"a restore of two":             {spec: `bootstrap: {restore: {backup: a, destination: {url: "s3://b"}}}`, field: "spec.bootstrap.restore.backup", words: "backup or destination is needed"},
	"a directory of a backup":      {spec: `bootstrap: {restore: {backup: a, directory: b}}`, field: "spec.bootstrap.restore.directory", words: "a Backup knows its own"},
	"a revision and a time":        {spec: `bootstrap: {restore: {backup: a, revision: 7, time: "2026-05-01T12:00:00Z"}}`, field: "spec.bootstrap.restore.time", words: "time and revision exclude each other"},
	"a backup elsewhere":           {spec: `bootstrap: {restore: {backup: team-a/b}}`, field: "spec.bootstrap.restore.backup", words: "backup must be the name of a Backup of the same namespace"},
	"a directory above":            {spec: `bootstrap: {restore: {destination: {url: "s3://b"}, directory: ..}}`, field: "spec.bootstrap.restore.directory", words: "directory must be the name of one below the url"},
	"a directory further below":    {spec: `bootstrap: {restore: {destination: {url: "s3://b"}, directory: a/b}}`, field: "spec.bootstrap.restore.directory", words: "as a Backup reports it"},
	"a directory that is a flag":   {spec: `bootstrap: {restore: {destination: {url: "s3://b"}, directory: --url=file:///}}`, field: "spec.bootstrap.restore.directory", words: "directory must be"},
	"a restore from the web":       {spec: `bootstrap: {restore: {destination: {url: "http://b"}}}`, field: "spec.bootstrap.restore.destination.url", words: "destination.url must be s3://"},
	"a restore as another account": {spec: `bootstrap: {restore: {destination: {url: "s3://b", serviceAccountName: a/b}}}`, field: "spec.bootstrap.restore.destination.serviceAccountName", words: "destination.serviceAccountName must be"},
	"keys of a restore elsewhere":  {spec: `bootstrap: {restore: {destination: {url: "s3://b", encryption: {name: a/b}}}}`, field: "spec.bootstrap.restore.destination.encryption.name", words: "a Secret of the same namespace"},
	"credentials elsewhere":        {spec: `bootstrap: {restore: {destination: {url: "s3://b", credentials: {name: a/b}}}}`, field: "spec.bootstrap.restore.destination.credentials.name", words: "a Secret of the same namespace"},
	"revision zero":                {spec: `bootstrap: {restore: {backup: a, revision: 0}}`, field: "spec.bootstrap.restore.revision", words: "should be greater than or equal to 1"},
	"a time in words":              {spec: `bootstrap: {restore: {backup: a, time: yesterday}}`, field: "spec.bootstrap.restore.time", words: "must be of type date-time"},
}

func TestValidBackupsAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, backupKind, merged(validBackups, validBackedUp))
}

func TestValidBackupSchedulesAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, scheduleKind, merged(validSchedules, validBackedUp))
}

func TestInvalidBackupsAreRefused(t *testing.T) {
	refuseAll(t, backupKind, merged(invalidBackups, invalidBackedUp))
}

func TestInvalidBackupSchedulesAreRefused(t *testing.T) {
	refuseAll(t, scheduleKind, merged(invalidSchedules, invalidBackedUp))
}

func TestChangesOfBackups(t *testing.T) { changeAll(t, backupKind, backupChanges) }

func TestChangesOfBackupSchedules(t *testing.T) { changeAll(t, scheduleKind, scheduleChanges) }

func TestValidRestoresAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, restoreKind, validInPlace)
}

func TestInvalidRestoresAreRefused(t *testing.T) { refuseAll(t, restoreKind, invalidInPlace) }

func TestChangesOfRestores(t *testing.T) { changeAll(t, restoreKind, restoreChanges) }

func TestAnyAdmittedBackupCanBeReadByATypedClient(t *testing.T) {
	s, ctx, typed := apiServer(t), testContext(t), typedClient(t)
	for _, k := range []struct {
		kind
		table map[string]string
		list  client.ObjectList
	}{
		{backupKind, merged(validBackups, validBackedUp), &v1alpha1.BackupList{}},
		{scheduleKind, merged(validSchedules, validBackedUp), &v1alpha1.BackupScheduleList{}},
		{restoreKind, validInPlace, &v1alpha1.RestoreList{}},
	} {
		var specs []string
		if k.name != restoreKind.name {
			specs = fill([]string{`resources: {limits: {memory: %s}}`}, nastyQuantities)
		}
		for _, spec := range k.table {
			specs = append(specs, spec)
		}
		if k.name == scheduleKind.name {
			specs = append(specs, fill([]string{`jitter: %s`, `startingDeadline: %s`, `incremental: {interval: %s}`}, []any{
				"1h", "999999h", "1e3s", "1h1h", "24h0m0s", " 1s", "1s\n", "", "P1D", 7, "720h0m0s",
			})...)
			specs = append(specs, fill([]string{`retention: {keepLast: %s}`}, nastyNumbers)...)
		}
		admitted := 0
		for _, spec := range specs {
			u := toUnstructured(t, bad{spec: spec}.object(t, k.kind))
			if err := s.client.Create(ctx, u); err != nil {
				continue
			}
			admitted++
			if err := typed.List(ctx, k.list); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
			if err := s.client.Delete(ctx, u); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d of %d admitted", k.name, admitted, len(specs))
	}
}
