// Package software tells versions of Redis and Valkey apart, and what each of them can do.
//
// A feature that depends on the version is a row of its table. What a server reports itself (COMMAND
// INFO, CONFIG GET) is asked of the server instead.
package software
