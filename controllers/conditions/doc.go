// Package conditions sets conditions in a status, and keeps the texts of a status within the
// size that the API server stores. It knows no kind and reads nothing.
package conditions
