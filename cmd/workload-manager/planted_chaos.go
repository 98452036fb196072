//go:build chaos

package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
)

// Bugs that can be planted, to show that the checker of the storm finds them.
// AGENTCUBE_PLANTED_BUG names the one that this process has.
const plantedVariable = "AGENTCUBE_PLANTED_BUG"

const (
	// A deletion seen in the cluster purges the session that the object's label
	// names, whatever object its row names.
	bugPurgeWithoutUID = "purge-without-uid"
	// The undo of a create removes the row and forgets the object.
	bugUndoForgets = "undo-forgets-object"
	// The commit does not care what became of the reservation.
	bugCommitWithoutToken = "commit-without-token"
	// The removal of a row leaves an index entry behind.
	bugRemoveForgetsIndex = "remove-forgets-index"
	// A refresh keeps the address of the first pod.
	bugRefreshKeepsAddress = "refresh-keeps-address"
	// A deletion removes the row and leaves the object.
	bugDeleteOnlyRow = "delete-only-row"
	// The collector takes the time of the create for that of the last activity.
	bugCollectorIgnoresActivity = "collector-ignores-activity"
	// A create writes its row once the object exists.
	bugRowAfterObject = "row-after-object"
	// What is deleted in the cluster is not noticed.
	bugIgnoresDeletions = "reconcile-ignores-deletions"
	// A deletion by name takes whatever object bears it.
	bugDeleteWithoutUID = "delete-without-uid"
	// A change of lifetimes does not reach the object.
	bugChangeForgets = "change-forgets-object"
)

var plantedBugs = []string{
	bugPurgeWithoutUID, bugUndoForgets, bugCommitWithoutToken, bugRemoveForgetsIndex, bugRefreshKeepsAddress,
	bugDeleteOnlyRow, bugCollectorIgnoresActivity, bugRowAfterObject, bugIgnoresDeletions, bugDeleteWithoutUID,
	bugChangeForgets,
}

var planted = func() string {
	bug := os.Getenv(plantedVariable)
	if bug != "" && !slices.Contains(plantedBugs, bug) {
		fmt.Fprintf(os.Stderr, "%s: %q is none of %v\n", plantedVariable, bug, plantedBugs)
		os.Exit(2)
	}
	if bug != "" {
		fmt.Fprintln(os.Stderr, "this process has the planted bug", bug)
	}
	return bug
}()

// spared are the objects, by kind, namespace and name, that a bug does not
// delete.
var spared sync.Map
