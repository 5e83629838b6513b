// Package envtest holds the tests of the API against a real kube-apiserver and etcd, without any node: what is refused
// at admission and with which words, what is defaulted, what may change afterwards, and how kubectl shows it. It does
// not start the operator.
package envtest
