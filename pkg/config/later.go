package config

// notYet refuses options of the contract that this build does not carry out.
// Accepting them silently would leave an installation open that was meant to
// be closed. An option leaves this list in the change that provides it.
func notYet(v *checks, c WorkloadManager) {
	v.require(!c.EnableAuth, "enable-auth", "this build does not provide it yet")
}
