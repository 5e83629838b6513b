// Package fakeapi is an API server in memory for tests of controllers: it counts writes, fails
// them on request, and has a history that caches lag behind. It imports no controller, so that
// the tests of each can use it.
package fakeapi
