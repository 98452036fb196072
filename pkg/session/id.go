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

// Key is an id as 16 bytes. In the keys of a large map it costs the garbage
// collector nothing.
type Key [16]byte

// KeyOf returns the key of an id; false if the id is not valid.
func KeyOf(id string) (Key, bool) {
	var key Key
	if len(id) != IDLength || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return key, false
	}
	at := 0
	for i := range key {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		hi, lo := nibbles[id[at]], nibbles[id[at+1]]
		if hi|lo > 0xf {
			return Key{}, false
		}
		key[i] = hi<<4 | lo
		at += 2
	}
	return key, true
}

// nibbles are the values of lower-case hexadecimal digits, 0xff for all else.
var nibbles = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for i, digit := range []byte("0123456789abcdef") {
		table[digit] = byte(i)
	}
	return table
}()
