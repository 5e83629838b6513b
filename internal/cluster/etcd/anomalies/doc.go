// Package anomalies finds members of etcd that behave unlike the others or unlike before: slow disks,
// slow answers, leader changes, lag, free pages.
//
// It remembers figures between reconciles and reports what it finds. It changes nothing, and no step
// depends on it.
package anomalies
