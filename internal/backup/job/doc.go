// Package job builds the Jobs and StatefulSets that run the agent for a backup or a restore, and defines what the agent
// reports back: mount paths, exit codes, progress and the termination message. It must not decide whether a Job is
// created or deleted: package planner does. It must not call the Kubernetes API or a store.
package job
