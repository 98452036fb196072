package session

// IDLength is the length of a session id: a UUID in its canonical form.
const IDLength = 36

// ValidID reports whether id is a lower-case UUID in canonical form. Nothing
// else is ever looked up, so that no id can name another key of the store.
func ValidID(id string) bool {
	if len(id) != IDLength {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
