package e2e

import "slices"

// shared are the behaviours that do not disturb each other.
func shared() []behaviour {
	return slices.Concat(clusterBehaviours, podBehaviours, suspendBehaviours, endBehaviours, namespaceBehaviours,
		nameBehaviours, labelBehaviours, lifecycleBehaviours, collectBehaviours, apiBehaviours, sessionBehaviours,
		listBehaviours, retryBehaviours, routerBehaviours, compatBehaviours, cliBehaviours, cliSessionBehaviours,
		observeBehaviours)
}

// slow are those of them that mostly wait. They take next to nothing of the
// machine, and all wait at the same time.
func slow() []behaviour {
	return slices.Concat(slowRefusalBehaviours, slowLifecycleBehaviours, slowCollectBehaviours, slowRetryBehaviours)
}

// alone are those that break a part of the system for a while.
func alone() []behaviour {
	return slices.Concat(lifecycleAlone, apiAloneBehaviours, podAloneBehaviours, suspendAloneBehaviours, nameAloneBehaviours, compatAloneBehaviours, resyncBehaviours)
}
